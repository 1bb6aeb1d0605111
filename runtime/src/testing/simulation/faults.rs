//! Puts faults on a fleet, and ends them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::plan::{FaultAction, OperatorCall, PlannedFault};
use super::recorder::Recorder;
use super::workload::operators;
use crate::Timestamp;
use crate::store::SharedLock;
use crate::testing::check::{Fault, Observed};
use crate::testing::memory::MemorySnapshot;
use crate::testing::network::{KillPoint, MessageFaults};
use crate::testing::{Fleet, TestServer};

/// Starts a server of this number and version, and what runs on it.
pub(in crate::testing) type StartServer<'a> = Box<dyn Fn(&TestServer, usize, usize) + Send + Sync + 'a>;

/// Puts faults on a fleet.
pub(in crate::testing) struct Injector<'a> {
    pub(in crate::testing) fleet: &'a mut Fleet,
    pub(in crate::testing) recorder: Recorder,
    /// Called before a server starts, with its number and version.
    pub(in crate::testing) before_start: Box<dyn Fn(usize, usize) + Send + Sync + 'a>,
    /// Called after a server has started.
    pub(in crate::testing) after_start: StartServer<'a>,
    pub(in crate::testing) keys: Vec<Arc<str>>,
    /// The usual delay of the messages of each server.
    pub(in crate::testing) delays: Vec<Duration>,
    /// Milliseconds by which each server's clock is ahead.
    pub(in crate::testing) clocks_ahead: Vec<i64>,
    /// The version of each server's jobs.
    pub(in crate::testing) versions: Vec<usize>,
    /// Faults in progress, by their ends.
    active: BTreeMap<(Instant, u64), ActiveFault>,
    number: u64,
    is_down: bool,
    /// Contents of the store, for failovers.
    snapshots: Vec<(Instant, MemorySnapshot)>,
    pub(in crate::testing) takes_snapshots: bool,
}

/// A fault in progress.
#[derive(Clone, Debug, PartialEq)]
struct ActiveFault {
    kind: Fault,
    /// The number of the server, and its id: another one may have its place by the end.
    server: Option<(usize, Arc<str>)>,
    /// The key of a foreign lock, or of a paused job.
    key: Option<Arc<str>>,
}

const SNAPSHOT_EVERY: Duration = Duration::from_millis(250);

impl<'a> Injector<'a> {
    pub(in crate::testing) fn new(fleet: &'a mut Fleet, recorder: Recorder) -> Self {
        let servers = fleet.servers.len();
        Self {
            fleet,
            recorder,
            before_start: Box::new(|_, _| ()),
            after_start: Box::new(|_, _, _| ()),
            keys: Vec::new(),
            delays: vec![Duration::ZERO; servers],
            clocks_ahead: Vec::new(),
            versions: vec![0; servers],
            active: BTreeMap::new(),
            number: 0,
            is_down: false,
            snapshots: Vec::new(),
            takes_snapshots: false,
        }
    }

    /// Starts a server, at its number.
    pub(in crate::testing) async fn start(&mut self, number: usize, version: usize) -> Option<TestServer> {
        (self.before_start)(number, version);
        self.fleet.set_next_clock(self.clocks_ahead.get(number).copied().unwrap_or_default());
        let server = self.fleet.new_server().await.expect("the jobs are valid");
        let id: Arc<str> = server.server_id().into();
        let (recorder, killed) = (self.recorder.clone(), id.clone());
        server.on_kill(move || {
            recorder.instant_fault(&killed, Fault::Kill);
            recorder.server_ended(&killed);
        });
        let (outage, delay) = (self.is_down, self.delays.get(number).copied().unwrap_or_default());
        server.change_network(|conditions| {
            conditions.outage = outage;
            conditions.messages = Some(MessageFaults { delay, ..MessageFaults::default() });
        });
        (self.after_start)(&server, number, version);
        if number == self.fleet.servers.len() {
            self.fleet.servers.push(server);
            self.versions.push(version);
            return None;
        }
        self.versions[number] = version;
        Some(std::mem::replace(&mut self.fleet.servers[number], server))
    }

    /// Lets time pass, with the ends of faults in it.
    pub(in crate::testing) async fn run_until(&mut self, until: Instant) {
        loop {
            let next = self.active.first_key_value().map(|((at, _), _)| *at).filter(|at| *at <= until);
            let wake = next.unwrap_or(until);
            if self.takes_snapshots && wake > Instant::now() + SNAPSHOT_EVERY {
                sleep_until(Instant::now() + SNAPSHOT_EVERY).await;
                self.snapshots.push((Instant::now(), self.fleet.store.snapshot()));
                continue;
            }
            sleep_until(wake).await;
            match next.and_then(|_| self.active.pop_first()) {
                Some((_, ended)) => self.end(ended).await,
                None => return,
            }
        }
    }

    /// Ends every fault, and starts servers again that were killed.
    pub(in crate::testing) async fn heal(&mut self) {
        while let Some((_, fault)) = self.active.pop_first() {
            self.end(fault).await;
        }
        // A failover may have brought back the lock of another program.
        for key in &self.keys {
            self.fleet.store.remove_foreign_lock(key);
        }
        for number in 0..self.fleet.servers.len() {
            self.fleet.servers[number].change_network(|conditions| conditions.kill_at = None);
            if self.fleet.servers[number].has_crashed() {
                self.start(number, self.versions[number]).await;
            }
        }
    }

    /// Puts a fault on the fleet. One that is in progress on the same server already is left out.
    pub(in crate::testing) async fn inject(&mut self, PlannedFault { action, .. }: &PlannedFault) {
        match action {
            FaultAction::Kill { server, point, back_after } => self.kill(*server, *point, *back_after),
            FaultAction::Stop { server, lasts } => {
                self.begin(Fault::Stop, *server, *lasts, TestServer::freeze);
            }
            FaultAction::BlockApplication { server, lasts } => {
                self.begin(Fault::BlockApplication, *server, *lasts, |server| server.block_application(true));
            }
            FaultAction::CutOff { server, lasts } => {
                self.begin(Fault::CutOff, *server, *lasts, |server| server.cut_off(true));
            }
            FaultAction::BadNetwork { server, messages, lasts } => {
                let messages = Some(messages.clone());
                self.begin(Fault::BadNetwork, *server, *lasts, |server| {
                    server.change_network(|conditions| conditions.messages = messages);
                });
            }
            FaultAction::ServerClock { server, step, drift } => {
                let server = &self.fleet.servers[*server];
                server.clock().step(*step);
                server.clock().set_drift(*drift);
                self.recorder.instant_fault(&server.server_id().into(), Fault::ServerClock);
            }
            FaultAction::Deploy { server, version } => self.deploy(*server, *version).await,
            FaultAction::StoreOutage { lasts } if !self.is_down => {
                self.set_down(true);
                self.begin_general(Fault::StoreOutage, *lasts, None);
            }
            FaultAction::StoreOutage { .. } => {}
            FaultAction::Wipe { key } => {
                self.recorder.instant_fault(&"".into(), Fault::StoreLosesWrites);
                match key {
                    Some(key) => {
                        self.fleet.store.wipe(&self.keys[*key]);
                        self.fleet.store.wipe(&format!("{}#slots", self.keys[*key]));
                    }
                    None => self.fleet.store.wipe_all(),
                }
            }
            FaultAction::Failover { loses } => {
                let kept_until = Instant::now().checked_sub(*loses);
                let kept = self.snapshots.iter().rev().find(|(at, _)| Some(*at) <= kept_until);
                if let Some((_, kept)) = kept {
                    self.recorder.instant_fault(&"".into(), Fault::StoreLosesWrites);
                    self.fleet.store.restore(kept);
                }
            }
            FaultAction::StoreClock { step } => {
                let fault = if *step > 0 { Fault::StoreClockForward } else { Fault::StoreClockBack };
                self.recorder.instant_fault(&"".into(), fault);
                self.fleet.clock().step(*step);
            }
            FaultAction::ForeignLock { key, expires, lasts } => self.set_foreign_lock(*key, *expires, *lasts),
            FaultAction::ForeignDeletion { key } => {
                self.recorder.instant_fault(&"".into(), Fault::ForeignLock);
                self.fleet.store.set_lock(&self.keys[*key], None);
            }
            FaultAction::Operator { server, key, call } => self.operate(*server, *key, *call),
        }
    }

    fn begin(&mut self, kind: Fault, number: usize, lasts: Duration, begin: impl FnOnce(&TestServer)) {
        let server = &self.fleet.servers[number];
        let id: Arc<str> = server.server_id().into();
        let fault = ActiveFault { kind, server: Some((number, id.clone())), key: None };
        if server.has_crashed() || self.active.values().any(|active| *active == fault) {
            return;
        }
        begin(server);
        self.recorder.add(&id, Observed::FaultBegan(kind));
        self.add_active(lasts, fault);
    }

    fn begin_general(&mut self, kind: Fault, lasts: Duration, key: Option<Arc<str>>) {
        self.recorder.add_general(Observed::FaultBegan(kind));
        self.add_active(lasts, ActiveFault { kind, server: None, key });
    }

    fn add_active(&mut self, lasts: Duration, fault: ActiveFault) {
        self.number += 1;
        self.active.insert((Instant::now() + lasts, self.number), fault);
    }

    async fn end(&mut self, ActiveFault { kind, server, key }: ActiveFault) {
        let Some((number, id)) = server else {
            self.recorder.add_general(Observed::FaultEnded(kind));
            match (kind, key) {
                (Fault::ForeignLock, Some(key)) => self.fleet.store.set_lock(&key, None),
                (Fault::Operator, Some(key)) => operators::resume(self.any_server(), key, &self.recorder),
                _ => self.set_down(false),
            }
            return;
        };
        let server = &self.fleet.servers[number];
        if kind == Fault::Kill {
            if *server.server_id() != *id {
                return; // another one has its place
            }
            // Killed meanwhile by its next swap, or now.
            server.crash();
            self.start(number, self.versions[number]).await;
            return;
        }
        if *server.server_id() != *id {
            return; // it was replaced, and the fault lasts until it has ended
        }
        self.recorder.add(&id, Observed::FaultEnded(kind));
        match kind {
            Fault::Stop => {
                server.thaw();
                let is_blocked = |active: &ActiveFault| {
                    active.kind == Fault::BlockApplication
                        && active.server.as_ref() == Some(&(number, id.clone()))
                };
                server.block_application(self.active.values().any(is_blocked));
            }
            Fault::BlockApplication => {
                let is_stopped = |active: &ActiveFault| {
                    active.kind == Fault::Stop && active.server.as_ref() == Some(&(number, id.clone()))
                };
                if !self.active.values().any(is_stopped) {
                    server.block_application(false);
                }
            }
            Fault::CutOff => server.cut_off(false),
            _ => {
                let delay = self.delays.get(number).copied().unwrap_or_default();
                server.change_network(|conditions| {
                    conditions.messages = Some(MessageFaults { delay, ..MessageFaults::default() });
                });
            }
        }
    }

    fn kill(&mut self, number: usize, point: Option<KillPoint>, back_after: Duration) {
        let server = &self.fleet.servers[number];
        let id: Arc<str> = server.server_id().into();
        let fault = ActiveFault { kind: Fault::Kill, server: Some((number, id)), key: None };
        if self.active.values().any(|active| *active == fault) {
            return;
        }
        match point {
            Some(point) => server.change_network(|conditions| conditions.kill_at = Some(point)),
            None => server.crash(),
        }
        self.add_active(back_after, fault);
    }

    /// Starts the next version beside the old one, which shuts down.
    async fn deploy(&mut self, number: usize, version: usize) {
        let old: Arc<str> = self.fleet.servers[number].server_id().into();
        if self.fleet.servers[number].has_crashed() {
            return;
        }
        self.recorder.add(&old, Observed::FaultBegan(Fault::Deploy));
        let Some(old_server) = self.start(number, version).await else { return };
        self.recorder.server_stops_claiming(&old);
        let recorder = self.recorder.clone();
        // A process that was asked to end continues to run, unless it is stopped.
        drop(tokio::spawn(async move {
            old_server.jobs().shutdown().await;
            recorder.add(&old, Observed::FaultEnded(Fault::Deploy));
            old_server.end();
            recorder.server_ended(&old);
        }));
    }

    fn set_down(&mut self, is_down: bool) {
        self.is_down = is_down;
        for server in &self.fleet.servers {
            server.change_network(|conditions| conditions.outage = is_down);
        }
    }

    fn set_foreign_lock(&mut self, key: usize, expires: bool, lasts: Duration) {
        let key = self.keys[key].clone();
        let until: Option<Timestamp> = expires.then(|| self.fleet.now() + lasts);
        self.fleet.store.set_lock(&key, Some(SharedLock { token: "another program".into(), until }));
        self.begin_general(Fault::ForeignLock, lasts, Some(key));
    }

    fn operate(&mut self, number: usize, key: usize, call: OperatorCall) {
        let server = &self.fleet.servers[number];
        if server.has_crashed() {
            return;
        }
        let key = self.keys[key].clone();
        operators::call(server.jobs().clone(), key.clone(), call, &self.recorder);
        match call {
            OperatorCall::Pause { lasts } => self.begin_general(Fault::Operator, lasts, Some(key)),
            _ => self.recorder.instant_fault(&"".into(), Fault::Operator),
        }
    }

    fn any_server(&self) -> crate::Jobs {
        let alive = self.fleet.servers.iter().find(|server| !server.has_crashed());
        alive.unwrap_or(&self.fleet.servers[0]).jobs().clone()
    }
}
