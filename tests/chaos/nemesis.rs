//! Draws faults from a seed, and ends them.

use std::collections::BTreeMap;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use jobs::testing::check::Fault;
use support::proxy;

use super::clock::Random;
use super::deployment::{Broken, Deployment, StoreFault};
use super::fleet::{Fleet, SERVERS};
use super::operator::Operator;
use super::plan;

/// As many faults at a time.
const AT_ONCE: usize = 4;

/// What the nemesis can do. The name of a variant is its name in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strike {
    Kill,
    Stop,
    Deploy,
    BlockedApplication,
    Delay,
    BrokenMessages,
    CutOff,
    WrongClock,
    Overload,
    Pause,
    RunNow,
    Break,
    ForeignLock,
    Store(StoreFault),
}

/// Each as often as it is here.
const STRIKES: [Strike; 26] = {
    use Strike::{
        BlockedApplication, Break, BrokenMessages, CutOff, Delay, Deploy, ForeignLock, Kill, Overload, Pause,
        RunNow, Stop, Store, WrongClock,
    };
    [
        Kill,
        Kill,
        Kill,
        Stop,
        Stop,
        Stop,
        Stop,
        Deploy,
        Deploy,
        BlockedApplication,
        BlockedApplication,
        Delay,
        BrokenMessages,
        BrokenMessages,
        CutOff,
        CutOff,
        WrongClock,
        Overload,
        Pause,
        RunNow,
        Break,
        ForeignLock,
        Store(StoreFault::Stop),
        Store(StoreFault::ClosedConnections),
        Store(StoreFault::ForgottenScripts),
        Store(StoreFault::Restart),
    ]
};

/// A fault that lasts.
enum Active {
    Killed(usize),
    Stopped(usize),
    Blocked(usize),
    Delayed(usize),
    BrokenMessages(usize),
    CutOff(usize),
    Overload(Vec<Child>),
    Store(StoreFault, Broken),
}

pub struct Nemesis<'a> {
    pub fleet: &'a mut Fleet,
    pub deployment: &'a mut Deployment,
    pub operator: &'a Operator,
    random: Random,
    active: Vec<(Instant, Active)>,
    pub strikes: BTreeMap<Strike, u64>,
}

impl<'a> Nemesis<'a> {
    pub fn new(
        fleet: &'a mut Fleet,
        deployment: &'a mut Deployment,
        operator: &'a Operator,
        seed: u64,
    ) -> Self {
        let random = Random::new(seed);
        Self { fleet, deployment, operator, random, active: Vec::new(), strikes: BTreeMap::new() }
    }

    pub fn rage(&mut self, lasts: Duration) {
        let end = Instant::now() + lasts;
        let mut next = Instant::now();
        while Instant::now() < end {
            self.end_faults(Instant::now());
            self.fleet.reap();
            if Instant::now() >= next && self.active.len() < AT_ONCE {
                let strike = *self.random.choose(&STRIKES);
                // Instead of a restart that it does not have.
                let strike = match (strike, self.deployment.kind.faults()[0]) {
                    (Strike::Store(StoreFault::Restart), other) => Strike::Store(other),
                    (strike, _) => strike,
                };
                let number = usize::try_from(self.random.between(0, SERVERS as u64 - 1)).expect("a number");
                if let Some(lasts) = self.strike(strike, number) {
                    *self.strikes.entry(strike).or_default() += 1;
                    next = Instant::now() + self.random.millis(50, 500).min(lasts);
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends all faults, and waits until every server serves.
    pub fn heal(&mut self) {
        self.end_faults(Instant::now() + Duration::from_secs(3600));
        for place in self.fleet.places.iter().filter(|place| place.has_clock()) {
            place.set_clock(0);
        }
        for place in &self.fleet.places {
            self.fleet.ended(&place.name, Fault::ServerClock);
        }
        self.fleet.wait_until_ready();
        self.fleet.wait_until_reaped();
        self.operator.finish();
    }

    /// Begins a fault, if it is possible now; returns how long to wait at least for the next.
    fn strike(&mut self, strike: Strike, number: usize) -> Option<Duration> {
        let place = &self.fleet.places[number];
        let (process_fault, network_fault) = (place.process_fault, place.network_fault);
        let name = place.name.clone();
        let key = self.random.choose(&plan::jobs()).key.clone();
        let ttl = 2500;
        let (lasts, active) = match strike {
            Strike::Kill if !process_fault && !network_fault => {
                self.fleet.kill(number);
                (self.random.millis(0, 1500), Active::Killed(number))
            }
            Strike::Deploy if !process_fault && !network_fault => {
                self.fleet.deploy(number);
                return Some(Duration::ZERO);
            }
            Strike::Stop if !process_fault => {
                self.fleet.began(&name, Fault::Stop);
                place_signal(self.fleet, number, "-STOP");
                (self.random.millis(ttl / 10, ttl * 3), Active::Stopped(number))
            }
            Strike::BlockedApplication if !process_fault => {
                let lasts = self.random.millis(ttl / 10, ttl * 2);
                self.fleet.began(&name, Fault::BlockApplication);
                self.fleet.places[number].worker.order(&format!("block {}", lasts.as_millis()));
                // A busy process may begin later.
                (lasts + Duration::from_millis(300), Active::Blocked(number))
            }
            Strike::Delay | Strike::BrokenMessages | Strike::CutOff
                if !network_fault && place.proxy.is_some() =>
            {
                self.strike_network(strike, number)
            }
            Strike::WrongClock if place.has_clock() => {
                let offset = i64::try_from(self.random.between(0, 120)).expect("small") - 60;
                self.fleet.began(&name, Fault::ServerClock);
                self.fleet.places[number].set_clock(offset);
                return Some(Duration::ZERO);
            }
            Strike::Overload => {
                self.fleet.began("", Fault::Overload);
                // It ends by itself, in case the harness does not come to it.
                let busy =
                    || Command::new("bash").args(["-c", "while [ $SECONDS -lt 4 ]; do :; done"]).spawn();
                let processes = (0..4).map(|_| busy().expect("bash")).collect();
                (self.random.millis(300, 2000), Active::Overload(processes))
            }
            Strike::Pause => {
                self.operator.pause(key, self.random.millis(300, 2500));
                return Some(Duration::ZERO);
            }
            Strike::Break => {
                self.operator.break_lock(if self.random.once_in(2) { plan::mutex_key(0) } else { key });
                return Some(Duration::ZERO);
            }
            Strike::RunNow if !process_fault => {
                self.fleet.began(&name, Fault::Operator);
                self.fleet.places[number].worker.order(&format!("run_now {key}"));
                self.fleet.ended(&name, Fault::Operator);
                return Some(Duration::ZERO);
            }
            // A store that is stopped would answer only when this thread lets it continue.
            Strike::ForeignLock if !self.breaks_store() && self.deployment.set_foreign_lock(&key) => {
                self.operator.foreign_lock();
                return Some(Duration::ZERO);
            }
            Strike::Store(fault) if self.deployment.can(fault) && !self.breaks_store() => {
                self.strike_store(fault)
            }
            _ => return None,
        };
        let place = &mut self.fleet.places[number];
        match active {
            Active::Killed(_) | Active::Stopped(_) | Active::Blocked(_) => place.process_fault = true,
            Active::Delayed(_) | Active::BrokenMessages(_) | Active::CutOff(_) => place.network_fault = true,
            Active::Overload(_) | Active::Store(..) => {}
        }
        self.active.push((Instant::now() + lasts, active));
        Some(lasts)
    }

    fn breaks_store(&self) -> bool {
        self.active.iter().any(|(_, active)| matches!(active, Active::Store(..)))
    }

    fn strike_network(&mut self, strike: Strike, number: usize) -> (Duration, Active) {
        let place = &self.fleet.places[number];
        let proxy = place.proxy.as_ref().expect("a proxy");
        let is_cut = strike == Strike::CutOff;
        self.fleet.began(&place.name, if is_cut { Fault::CutOff } else { Fault::BadNetwork });
        match strike {
            Strike::CutOff => {
                proxy.cut();
                (self.random.millis(200, 6000), Active::CutOff(number))
            }
            Strike::Delay => {
                proxy.delay(self.random.millis(5, 400));
                (self.random.millis(500, 4000), Active::Delayed(number))
            }
            _ => {
                let mut planned = Vec::new();
                let mut turn = 0;
                for _ in 0..self.random.between(1, 8) {
                    turn += usize::try_from(self.random.between(1, 12)).expect("small");
                    planned.push((*self.random.choose(&proxy::Fault::ALL), turn));
                }
                proxy.strike(&planned);
                (self.random.millis(500, 4000), Active::BrokenMessages(number))
            }
        }
    }

    fn strike_store(&mut self, fault: StoreFault) -> (Duration, Active) {
        let kind = if is_instant(fault) { Fault::BadNetwork } else { Fault::StoreOutage };
        self.fleet.began("", kind);
        if self.deployment.kind.loses_writes(fault) {
            self.fleet.began("", Fault::StoreLosesWrites);
        }
        let broken = self.deployment.strike(fault, &mut self.random);
        let lasts = match fault {
            StoreFault::ClosedConnections | StoreFault::ForgottenScripts => Duration::ZERO,
            StoreFault::Restart => self.random.millis(0, 1500),
            StoreFault::Stop => self.random.millis(100, 1200),
            StoreFault::Failover => Duration::from_secs(3),
            StoreFault::FullDisk => self.random.millis(300, 4000),
        };
        (lasts, Active::Store(fault, broken))
    }

    /// Ends the faults whose time is over.
    fn end_faults(&mut self, now: Instant) {
        let (over, active) =
            std::mem::take(&mut self.active).into_iter().partition(|(until, _)| *until <= now);
        self.active = active;
        for (until, active) in over {
            if matches!(active, Active::Blocked(_)) {
                // Nothing but time unblocks it.
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
            }
            self.end(active);
        }
    }

    fn end(&mut self, active: Active) {
        let names: Vec<_> = self.fleet.places.iter().map(|place| place.name.clone()).collect();
        match active {
            Active::Killed(number) => {
                self.fleet.ended(&names[number], Fault::Kill);
                drop(self.fleet.replace(number));
                self.fleet.places[number].process_fault = false;
            }
            Active::Stopped(number) => {
                place_signal(self.fleet, number, "-CONT");
                self.fleet.ended(&names[number], Fault::Stop);
                self.fleet.places[number].process_fault = false;
            }
            Active::Blocked(number) => {
                self.fleet.ended(&names[number], Fault::BlockApplication);
                self.fleet.places[number].process_fault = false;
            }
            Active::Delayed(number) | Active::BrokenMessages(number) | Active::CutOff(number) => {
                let place = &mut self.fleet.places[number];
                place.network_fault = false;
                let proxy = place.proxy.as_ref().expect("a proxy");
                proxy.strike(&[]);
                proxy.delay(Duration::ZERO);
                proxy.join();
                let was_cut = matches!(active, Active::CutOff(_));
                self.fleet.ended(&names[number], if was_cut { Fault::CutOff } else { Fault::BadNetwork });
            }
            Active::Overload(processes) => {
                for mut process in processes {
                    let _ended = (process.kill(), process.wait());
                }
                self.fleet.ended("", Fault::Overload);
            }
            Active::Store(fault, broken) => {
                self.deployment.repair(fault, broken);
                self.fleet.ended("", if is_instant(fault) { Fault::BadNetwork } else { Fault::StoreOutage });
                if self.deployment.kind.loses_writes(fault) {
                    self.fleet.ended("", Fault::StoreLosesWrites);
                }
            }
        }
    }
}

fn is_instant(fault: StoreFault) -> bool {
    matches!(fault, StoreFault::ClosedConnections | StoreFault::ForgottenScripts)
}

fn place_signal(fleet: &Fleet, number: usize, signal: &str) {
    fleet.places[number].worker.signal(signal);
}
