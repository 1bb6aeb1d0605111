//! The steps of a transaction of the application that finishes a run: `lease/transaction.rs`, and the database.
//!
//! `finish` locks the row of the newest lease until the transaction ends. From then on it may be committed or rolled back at any
//! time, whatever becomes of its server: its `COMMIT` may be under way, its connection may end, the database may give it up. A swap
//! that ends the lease waits for it; every other swap does not.

use jobs::store::NotCurrent;

use crate::checks::bit;
use crate::facts::{Fact, Notes, Violation};
use crate::protocol::{Explorer, Label};
use crate::small::{End, NO_TOKEN, SmallFencedLease, SmallSwap};
use crate::state::{Ending, History, Running, Server, Transaction};

impl Transaction {
    /// The lease that it has marked, before it is committed.
    fn lease(self) -> SmallFencedLease {
        SmallFencedLease { token: self.token, fence: self.fence, finished: false }
    }
}

impl Explorer<'_> {
    /// A run calls `finish`. While another transaction has the row, it waits. Its statement may arrive after its server was stopped.
    pub fn finish_run(&mut self, index: usize, running: Running) {
        if self.state.budget.transactions == 0 || self.state.transaction.is_some() {
            return;
        }
        let (lease, cached) = (running.lease, running.cached);
        let transaction = Transaction { token: lease.token, fence: lease.fence, tick: lease.tick };
        let (mut next, mut notes) = (self.state.clone(), Notes::default());
        next.budget.transactions -= 1;
        let refused = self.protocol.finish(&self.state.store, transaction.lease()).err();
        if refused.is_some() {
            let ended = Ending { lease, end: End::LeaseLost, finish_called: true, cached, decided: None };
            next.servers[index] = Server::Ending(ended);
        } else {
            next.transaction = Some(transaction);
            next.servers[index] = Server::Running(Running { finish_called: true, ..running });
        }
        notes.fact_if(refused == Some(NotCurrent::Superseded), Fact::FinishRefused);
        notes.fact_if(refused == Some(NotCurrent::AlreadyFinished), Fact::FinishedBefore);
        let result = if refused.is_some() { "refused" } else { "" };
        self.add(Label::of(lease.token, "finishes its run in a transaction").with(result), next, notes);
    }

    /// The open transaction ends.
    pub fn transaction(&mut self) {
        let Some(transaction) = self.state.transaction else { return };
        let mut ended = self.state.clone();
        ended.transaction = None;
        let label = Label::of(transaction.token, "the transaction is rolled back");
        self.add(label, ended.clone(), Notes::default());
        let (mut next, mut notes) = (ended, Notes::default());
        let (tick, history) = (bit(transaction.tick), &mut next.history);
        match self.protocol.real.finish(&self.state.store, transaction.lease()) {
            Ok(after) => next.store = after,
            Err(NotCurrent::Superseded) => notes.violations.add(Violation::StaleEffect),
            Err(NotCurrent::AlreadyFinished) => notes.violations.add(Violation::TwoEffects),
        }
        notes.violated_if(transaction.fence < history.highest_fence, Violation::StaleEffect);
        notes.violated_if(history.committed & tick != 0, Violation::TwoEffects);
        notes.violated_if(history.recorded & History::bit(transaction.token) != 0, Violation::WrongOutcome);
        notes.facts.push(Fact::Committed);
        let attempts = history.starts[usize::from(transaction.tick)].count_ones();
        notes.fact_if(attempts > 1, Fact::CommittedByTakeover);
        history.committed |= tick;
        self.add(Label::of(transaction.token, "the transaction is committed"), next, notes);
    }

    /// Whether a swap has to wait for the open transaction.
    pub fn waits(&self, swap: &SmallSwap) -> bool {
        self.state.transaction.is_some() && swap.change.ends_lease.is_some() && self.protocol.locks_row()
    }

    /// Notes a swap that is refused only because the work of the lease was committed since its look.
    pub fn refused_by_commit(&mut self, swap: &SmallSwap) {
        let mut anew = *swap;
        anew.change.ends_lease = anew.change.ends_lease.map(|_| self.state.store.finished());
        if anew != *swap && self.apply(&anew).is_some() {
            let notes = Notes { facts: vec![Fact::CommittedSinceLook], ..Notes::default() };
            self.add(Label::of(NO_TOKEN, "the work was committed"), self.state.clone(), notes);
        }
    }
}
