//! The steps of a holder: its run, its keep-alive and its release. `lease/mod.rs`, `tick/execute.rs` and `store/client`.

use crate::checks::Applied;
use crate::facts::{Fact, Notes};
use crate::protocol::{Explorer, Label, Looked};
use crate::small::{
    Answer, Contents, End, SmallFencedLease, SmallLease, SmallLock, SmallLook, SmallRecord, SmallSwap,
};
use crate::state::{Cached, Decided, Ending, Flight, Running, Server, State};
use crate::steps::claiming::{faulty, name, timeless};

impl Explorer<'_> {
    /// The steps of one server.
    pub fn server(&mut self, index: usize) {
        match self.state.servers[index] {
            Server::Idle => {}
            Server::Claiming(claiming) => self.claiming(index, claiming),
            Server::Running(running) => self.running(index, running),
            Server::Ending(ending) => self.ending(index, ending),
        }
    }

    /// The process is gone. Started again, it is another server.
    pub fn crash(&mut self, index: usize) {
        if self.state.budget.crashes > 0 {
            let mut next = self.state.clone();
            next.budget.crashes -= 1;
            next.servers[index] = Server::Idle;
            let label = Label::of(self.state.servers[index].token(), "crashes");
            self.add(label, next, Notes::default());
        }
    }

    fn set(&mut self, index: usize, server: Server, text: &'static str) {
        let mut next = self.state.clone();
        next.servers[index] = server;
        self.add(Label::of(server.token(), text), next, Notes::default());
    }

    fn running(&mut self, index: usize, running: Running) {
        self.crash(index);
        let Running { lease, deadline, begun, cached, finish_called, .. } = running;
        if begun {
            self.finish_run(index, running);
        }
        if running.stopped {
            return self.set(index, Server::Running(Running { stopped: false, ..running }), "continues");
        }
        if self.state.budget.stops > 0 {
            let mut next = self.state.clone();
            next.budget.stops -= 1;
            next.servers[index] = Server::Running(Running { stopped: true, ..running });
            self.add(Label::of(lease.token, "is stopped"), next, Notes::default());
        }
        let ended = |end| Server::Ending(Ending { lease, end, finish_called, cached, decided: None });
        let is_valid = self.time < deadline;
        match (begun, is_valid) {
            (true, true) => {
                self.set(index, ended(End::Succeeded), "ends its run");
                // Without takeovers nothing depends on it.
                if self.protocol.configuration.policy.takeovers > 0 {
                    self.set(index, ended(End::LeaseLost), "cancels its run");
                }
            }
            (true, false) => self.set(index, ended(End::LeaseLost), "is past its deadline: drops its run"),
            (false, true) => {
                let mut next = self.state.clone();
                let mut notes = Notes::default();
                self.protocol.check_start(lease, &mut next.history, &mut notes);
                next.servers[index] = Server::Running(Running { begun: true, ..running });
                self.add(Label::of(lease.token, "starts the job"), next, notes);
                self.set(index, ended(End::NotStarted), "revokes the start");
            }
            (false, false) => self.set(index, ended(End::NotStarted), "is past its deadline: starts nothing"),
        }
        self.extend(index, running);
    }

    /// Extends the lease: in one round trip if the record is as this server wrote it last.
    fn extend(&mut self, index: usize, running: Running) {
        if let Some(decided) = running.extension {
            return self.send_extension(index, running, decided);
        }
        if let Some(look) = self.cached_look(running.cached, running.lease) {
            let decision = self.protocol.extend(&look, running.lease);
            if let (Answer::Kept(_), Some(change)) = (decision.answer, decision.change) {
                let (answer, swap) = (timeless(decision.answer), SmallSwap::of(&look, change));
                let extension = Some(Decided { answer, swap, without_look: true });
                let running = Running { extension, cached: None, ..running };
                return self.set(index, Server::Running(running), "decides to extend, without a look");
            }
        }
        for looked in self.looks(running.half) {
            match looked {
                Looked::Whole(look) => {
                    let running = Running { half: None, ..running };
                    self.decide_extension(index, running, &look, "looks to extend");
                }
                Looked::Part(half) => {
                    let running = Running { half: Some(half), ..running };
                    self.set(index, Server::Running(running), "reads a part of the look to extend");
                }
            }
        }
    }

    /// The look that the store would show if the record is as it was written, with a lower bound of its clock.
    fn cached_look(&self, cached: Option<Cached>, lease: SmallLease) -> Option<SmallLook> {
        let Cached { version, offset } = cached?;
        let of = |contents: &Contents| contents.record.filter(|record| record.version == version);
        let record = of(&self.state.store).or_else(|| self.state.replica.as_ref().and_then(of))?;
        // A server learns of its commit by a look.
        let record = SmallRecord {
            lease: record.lease.map(|lease| SmallFencedLease { finished: false, ..lease }),
            ..record
        };
        let until = record.state.claimant.map_or(0, |claimant| claimant.until);
        let lock = Some(SmallLock { token: lease.token, until });
        Some(SmallLook { now: self.time + offset, record: Some(record), lock })
    }

    fn decide_extension(&mut self, index: usize, running: Running, look: &SmallLook, text: &'static str) {
        let lease = running.lease;
        let decision = self.protocol.extend(look, lease);
        let label = Label::of(lease.token, text).with(name(decision.answer));
        let (mut next, mut notes) = (self.state.clone(), Notes::default());
        next.servers[index] = match decision.change {
            Some(change) => {
                let (answer, swap) = (timeless(decision.answer), SmallSwap::of(look, change));
                let extension = Some(Decided { answer, swap, without_look: false });
                Server::Running(Running { extension, cached: None, ..running })
            }
            None => {
                self.protocol.check_loss(lease, self.now, self.state, &mut notes);
                let Running { finish_called, .. } = running;
                Server::Ending(Ending {
                    lease,
                    end: End::LeaseLost,
                    finish_called,
                    cached: None,
                    decided: None,
                })
            }
        };
        self.add(label, next, notes);
    }

    fn send_extension(&mut self, index: usize, running: Running, decided: Decided) {
        let lease = running.lease;
        let label = Label::of(lease.token, "sends the extension").with(name(decided.answer));
        let waiting = Running { extension: None, cached: None, ..running };
        let flight = Flight::Extend { lease, answer: decided.answer, swap: decided.swap, sent: self.time };
        let may_fail = self.state.budget.network > 0;
        if may_fail {
            let mut waiting = waiting;
            if self.protocol.counts_unanswered_extensions() {
                waiting.deadline =
                    self.protocol.deadline(self.time, self.time, self.protocol.configuration.policy.ttl);
            }
            let mut next = faulty(self.state, index, Server::Running(waiting));
            next.flights.push(flight);
            self.add(Label { result: "in flight", ..label }, next, Notes::default());
        }
        let Some(after) = self.apply(&decided.swap) else {
            if self.protocol.reuses_decision(decided.without_look) {
                let extension = Some(Decided { swap: self.reused(decided.swap), ..decided });
                let running = Running { extension, ..running };
                return self.set(index, Server::Running(running), "is refused, and sends the same again");
            }
            let look = self.look();
            return self.decide_extension(
                index,
                waiting,
                &look,
                "sends the extension, which is refused, and decides anew",
            );
        };
        let (mut applied, mut notes) = (self.state.clone(), Notes::default());
        self.note_extension(&mut applied, (after, &decided.swap), decided.answer, lease, &mut notes);
        notes.fact_if(decided.without_look, Fact::ExtendedWithoutLook);
        let kept = self.kept(waiting, &after, self.time);
        if may_fail {
            let mut next = faulty(&applied, index, Server::Running(waiting));
            next.flights.push(Flight::Kept {
                token: lease.token,
                until: kept.lease.until,
                deadline: kept.deadline,
                cached: kept.cached.map(|cached| Cached { offset: self.now, ..cached }),
            });
            self.add(Label { result: "applied, the answer is late", ..label }, next, notes.clone());
        }
        if may_fail && self.protocol.copies_matter() {
            let mut next = faulty(&applied, index, Server::Running(kept));
            next.flights.push(flight);
            self.add(Label { result: "applied, and a copy in flight", ..label }, next, notes.clone());
        }
        let mut next = applied;
        next.servers[index] = Server::Running(kept);
        self.add(label, next, notes);
    }

    /// Marks an extension's swap as applied.
    pub fn note_extension(
        &self,
        next: &mut State,
        (after, swap): (Contents, &SmallSwap),
        answer: Answer,
        lease: SmallLease,
        notes: &mut Notes,
    ) {
        next.store = after;
        notes.fact_if(self.state.transaction.is_some(), Fact::ExtendedBesideTransaction);
        let alive = self.state.server_with(lease.token).is_some();
        let applied = self.applied(&after, swap, alive);
        self.protocol.check_extension(applied, answer, lease, &mut next.history, notes);
    }

    /// The run when it learns that its lease was extended. The last confirmation counts, even if it is shorter.
    pub fn kept(&self, running: Running, after: &Contents, sent: i32) -> Running {
        let until = after.state().claimant.map_or(0, |claimant| claimant.until);
        Running {
            lease: SmallLease { until, ..running.lease },
            deadline: self.protocol.deadline(sent, self.time, until - self.now),
            cached: self.cached(after, sent),
            ..running
        }
    }

    fn ending(&mut self, index: usize, ending: Ending) {
        self.crash(index);
        if let Some(decided) = ending.decided {
            return self.send_release(index, ending, decided);
        }
        if let Some(look) = self.cached_look(ending.cached, ending.lease) {
            let decision = self.protocol.release(&look, ending);
            if let (Answer::Released, Some(change)) = (decision.answer, decision.change) {
                let (answer, swap) = (decision.answer, SmallSwap::of(&look, change));
                let decided = Some(Decided { answer, swap, without_look: true });
                let ending = Ending { decided, cached: None, ..ending };
                return self.set(index, Server::Ending(ending), "decides to release, without a look");
            }
        }
        self.decide_release(index, ending, "looks to release");
    }

    fn decide_release(&mut self, index: usize, ending: Ending, text: &'static str) {
        let look = self.look();
        let decision = self.protocol.release(&look, ending);
        let label = Label::of(ending.lease.token, text).with(name(decision.answer));
        let (mut next, mut notes) = (self.state.clone(), Notes::default());
        let change =
            decision.change.filter(|_| !ending.is_abandoned() || decision.answer == Answer::Released);
        if let Some(change) = change {
            let (answer, swap) = (decision.answer, SmallSwap::of(&look, change));
            let decided = Some(Decided { answer, swap, without_look: false });
            next.servers[index] = Server::Ending(Ending { decided, cached: None, ..ending });
        } else {
            // An abandoned claim may look again before it ends: that is the same state.
            let store = self.state.store;
            let applied = Applied { before: &store, after: &store, change: None, now: self.now, alive: true };
            self.protocol.check_release(applied, ending.lease, &mut next.history, &mut notes);
            next.servers[index] = Server::Idle;
        }
        self.add(label, next, notes);
    }

    fn send_release(&mut self, index: usize, ending: Ending, decided: Decided) {
        let lease = ending.lease;
        let label = Label::of(lease.token, "sends the release").with(name(decided.answer));
        let again = Server::Ending(Ending { decided: None, cached: None, ..ending });
        let flight = Flight::Release { lease, swap: decided.swap };
        let may_fail = self.state.budget.network > 0;
        if may_fail {
            for (server, result) in [(Server::Idle, "in flight, gives up"), (again, "in flight, tries again")]
            {
                let mut next = faulty(self.state, index, server);
                next.flights.push(flight);
                self.add(Label { result, ..label }, next, Notes::default());
            }
        }
        if self.waits(&decided.swap) {
            return;
        }
        let Some(after) = self.apply(&decided.swap) else {
            if self.protocol.reuses_decision(decided.without_look) {
                let decided = Some(Decided { swap: self.reused(decided.swap), ..decided });
                let ending = Ending { decided, ..ending };
                return self.set(index, Server::Ending(ending), "is refused, and sends the same again");
            }
            let again = Ending { decided: None, cached: None, ..ending };
            self.refused_by_commit(&decided.swap);
            return self.decide_release(
                index,
                again,
                "sends the release, which is refused, and decides anew",
            );
        };
        let (mut applied, mut notes) = (self.state.clone(), Notes::default());
        self.note_release(&mut applied, (after, &decided.swap), lease, &mut notes);
        notes.fact_if(decided.without_look, Fact::ReleasedWithoutLook);
        notes.fact_if(ending.is_abandoned(), Fact::AbandonedClaimReleased);
        if may_fail {
            let next = faulty(&applied, index, again);
            let label = Label { result: "applied, the answer is lost", ..label };
            self.add(label, next, notes.clone());
        }
        if may_fail && self.protocol.copies_matter() {
            let mut next = faulty(&applied, index, Server::Idle);
            next.flights.push(flight);
            self.add(Label { result: "applied, and a copy in flight", ..label }, next, notes.clone());
        }
        let mut next = applied;
        next.servers[index] = Server::Idle;
        self.add(label, next, notes);
    }

    /// Marks a release's swap as applied.
    pub fn note_release(
        &self,
        next: &mut State,
        (after, swap): (Contents, &SmallSwap),
        lease: SmallLease,
        notes: &mut Notes,
    ) {
        next.store = after;
        let applied = self.applied(&after, swap, true);
        self.protocol.check_release(applied, lease, &mut next.history, notes);
    }
}
