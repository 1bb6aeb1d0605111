//! The steps of everything but the servers: late messages, the store, other programs, the operator, and time.

use crate::checks::{Applied, check_record};
use crate::facts::{Fact, Notes, Violation};
use crate::protocol::{Explorer, Label};
use crate::real::SECOND;
use crate::small::{
    Answer, Ask, Contents, End, FOREIGN, Message, Micros, NO_TOKEN, SmallLease, SmallLock, SmallSwap, Token,
};
use crate::state::{Cached, Ending, Flight, History, Running, Server, State};
use crate::steps::claiming::{Win, faulty};

/// How long another program takes the shared lock for.
const FOREIGN_TTL: Micros = 3 * SECOND;

/// The time within which two swaps on a clock that stands still differ, as in the memory store.
pub const SAME_INSTANT: Micros = 1000;

/// A claim whose swap is applied late.
struct LateClaim {
    ask: Ask,
    answer: Answer,
    swap: SmallSwap,
    after: Contents,
    sent: Micros,
}

impl Explorer<'_> {
    /// Applies a swap now; `None` if the store refuses it.
    pub fn apply(&self, swap: &SmallSwap) -> Option<Contents> {
        let store = &self.state.store;
        // Later swaps of a key have later instants, even if the record was deleted in between.
        let newest = self.state.history.highest_fence;
        let is_same_instant = (0..SAME_INSTANT).contains(&(newest - self.now));
        let now = if is_same_instant && !self.protocol.configuration.ranks_fences() {
            newest + 1
        } else {
            self.now
        };
        self.protocol.apply(store, now, swap)
    }

    /// A swap that was applied.
    pub fn applied<'b>(&'b self, after: &'b Contents, swap: &SmallSwap, alive: bool) -> Applied<'b> {
        Applied { before: &self.state.store, after, change: Some(swap.change), now: self.now, alive }
    }

    /// A message in flight arrives. A swap that is refused then has no effect, as if it were lost.
    pub fn deliveries(&mut self) {
        for (number, flight) in self.state.flights.iter().enumerate() {
            let mut rest = self.state.clone();
            rest.flights.remove(number);
            if flight.clone().swap_mut().is_some_and(|swap| self.waits(swap)) {
                continue;
            }
            match *flight {
                Flight::Claim { ask, answer, swap, sent } => {
                    if let Some(after) = self.apply(&swap) {
                        self.late_claim(rest, &LateClaim { ask, answer, swap, after, sent });
                    }
                }
                Flight::Won { ask, lease, deadline, cached } => {
                    let cached = cached.map(|cached| self.arrived(cached));
                    let deadline = self.protocol.late_deadline(deadline, self.time);
                    self.late_win(rest, ask.token, Win { lease, deadline, cached });
                }
                Flight::Extend { lease, answer, swap, sent } => {
                    if let Some(after) = self.apply(&swap) {
                        self.late_extension(rest, (lease, answer), &swap, (after, sent));
                    }
                }
                Flight::Kept { token, until, deadline, cached } => {
                    let cached = cached.map(|cached| self.arrived(cached));
                    self.late_kept(rest, token, (until, deadline, cached));
                }
                Flight::Release { lease, swap } => {
                    if let Some(after) = self.apply(&swap) {
                        let mut notes = Notes::default();
                        notes.facts.push(Fact::LateRelease);
                        self.note_release(&mut rest, (after, &swap), lease, &mut notes);
                        self.add(Label::of(lease.token, "late release is applied"), rest, notes);
                    }
                }
            }
        }
    }

    /// What a server knows of the store's clock when a late answer arrives.
    fn arrived(&self, cached: Cached) -> Cached {
        Cached { offset: cached.offset - self.time, ..cached }
    }

    fn late_claim(&mut self, rest: State, claim: &LateClaim) {
        let &LateClaim { ask, answer, swap, after, sent } = claim;
        let (mut applied, mut notes) = (rest, Notes::default());
        self.note_claim(&mut applied, (after, &swap), ask, answer, &mut notes);
        let label = Label::of(ask.token, "late claim is applied");
        let sender = self.state.server_with(ask.token);
        if self.protocol.releases_by_late_reply()
            && let Answer::Won(lease) = answer
            && let Some(index) = applied.servers.iter().position(|server| *server == Server::Idle)
        {
            let mut next = applied.clone();
            let lease = SmallLease { fence: 0, ..lease };
            next.servers[index] = Server::Ending(Ending {
                lease,
                end: End::NotStarted,
                finish_called: false,
                cached: None,
                decided: None,
            });
            self.add(label.with("its answer makes the server release it"), next, notes.clone());
        }
        self.add(label.with("the answer is lost"), applied.clone(), notes.clone());
        let Some(index) = sender else { return };
        let Server::Claiming(_) = self.state.servers[index] else { return };
        let Some(win) = self.win(answer, &after, sent) else { return };
        if self.state.budget.network > 0 {
            let mut next = faulty(&applied, index, self.state.servers[index]);
            let Win { lease, deadline, cached } = win;
            let cached = cached.map(|cached| Cached { offset: self.now, ..cached });
            next.flights.push(Flight::Won { ask, lease, deadline, cached });
            self.add(label.with("the answer is late"), next, notes.clone());
        }
        applied.servers[index] = self.won(win, &mut applied, &mut notes);
        self.add(label.with("the answer arrives"), applied, notes);
    }

    fn late_win(&mut self, mut rest: State, token: Token, win: Win) {
        let Some(index) = self.state.server_with(token) else { return };
        if let Server::Claiming(_) = self.state.servers[index] {
            let mut notes = Notes::default();
            rest.servers[index] = self.won(win, &mut rest, &mut notes);
            self.add(Label::of(token, "late answer to the claim arrives"), rest, notes);
        }
    }

    fn late_extension(
        &mut self,
        mut rest: State,
        (lease, answer): (SmallLease, Answer),
        swap: &SmallSwap,
        (after, sent): (Contents, Micros),
    ) {
        let mut notes = Notes::default();
        notes.facts.push(Fact::LateExtension);
        self.note_extension(&mut rest, (after, swap), answer, lease, &mut notes);
        let label = Label::of(lease.token, "late extension is applied");
        self.add(label.with("the answer is lost"), rest.clone(), notes.clone());
        let Some(index) = self.state.server_with(lease.token) else { return };
        if let Server::Running(running) = self.state.servers[index]
            && !running.stopped
        {
            let kept = self.kept(running, &after, sent);
            let deadline = kept.deadline.max(running.deadline);
            rest.servers[index] = Server::Running(Running { deadline, extension: None, ..kept });
            self.add(label.with("the answer arrives"), rest, notes);
        }
    }

    fn late_kept(
        &mut self,
        mut rest: State,
        token: Token,
        (until, deadline, cached): (Micros, Micros, Option<Cached>),
    ) {
        let Some(index) = self.state.server_with(token) else { return };
        if let Server::Running(running) = self.state.servers[index]
            && !running.stopped
        {
            let deadline = self.protocol.late_deadline(deadline, self.time).max(running.deadline);
            let lease = SmallLease { until: until.max(running.lease.until), ..running.lease };
            let cached = cached.or(running.cached);
            rest.servers[index] = Server::Running(Running { lease, deadline, cached, ..running });
            self.add(Label::of(token, "late answer to the extension arrives"), rest, Notes::default());
        }
    }

    /// The store, and other programs.
    pub fn environment(&mut self) {
        let (store, budget) = (self.state.store, self.state.budget);
        let lock = store.live_lock(self.now);
        if budget.vanishings > 0 && lock.is_some_and(|lock| lock.token != FOREIGN) {
            let mut next = self.state.clone();
            next.budget.vanishings -= 1;
            next.store.lock = None;
            next.history.lock_vanished = true;
            self.add(Label::of(NO_TOKEN, "the shared lock vanishes"), next, Notes::default());
        }
        if budget.foreign > 0 && lock.is_none() {
            let mut next = self.state.clone();
            next.budget.foreign -= 1;
            next.store.lock = Some(SmallLock { token: FOREIGN, until: self.now + FOREIGN_TTL });
            self.add(Label::of(NO_TOKEN, "another program takes the lock"), next, Notes::default());
        }
        if store.foreign(self.now) {
            let mut next = self.state.clone();
            next.store.lock = None;
            self.add(Label::of(NO_TOKEN, "the other program releases the lock"), next, Notes::default());
        }
        if store.state().expires.is_some_and(|expires| expires <= self.now) && store.record.is_some() {
            let mut next = self.state.clone();
            next.store.record = None;
            self.add(Label::of(NO_TOKEN, "the store removes an expired record"), next, Notes::default());
        }
        let jumps = self.protocol.configuration.jumps;
        if let Some(jump) = jumps.get(usize::from(self.state.jumps)) {
            let mut next = self.state.clone();
            next.offset += Micros::from(*jump) * SECOND;
            next.jumps += 1;
            next.history.clock_jumped = true;
            self.add(Label::of(NO_TOKEN, "the store's clock jumps"), next, Notes::default());
        }
        if budget.failovers > 0 && self.state.replica.is_none() && store.record.is_some() {
            let mut next = self.state.clone();
            next.replica = Some(store);
            self.add(Label::of(NO_TOKEN, "the replica catches up"), next, Notes::default());
        }
    }

    /// An operator pauses or resumes the job, or looks and then breaks what was seen.
    pub fn operator(&mut self) {
        let (store, budget) = (self.state.store, self.state.budget);
        if budget.pauses > 0 {
            let mut next = self.state.clone();
            next.budget.pauses -= 1;
            let message = Message::SetPaused(!store.state().paused);
            if let Some(change) = self.protocol.real.decide(&self.look(), message).change
                && let Some(after) = self.apply(&SmallSwap::of(&self.look(), change))
            {
                next.store = after;
                self.add(Label::of(NO_TOKEN, "the operator pauses or resumes"), next, Notes::default());
            }
        }
        let holder = store.state().holder(self.now);
        let token = store.live_lock(self.now).map_or(NO_TOKEN, |lock| lock.token);
        match self.state.seen {
            None if budget.breaks > 0 && (holder.is_some() || token != NO_TOKEN) => {
                let mut next = self.state.clone();
                next.seen = Some((store.fence(), token));
                self.add(Label::of(NO_TOKEN, "the operator looks at the lock"), next, Notes::default());
            }
            None => {}
            Some(seen) => self.break_lock(seen, holder),
        }
    }

    fn break_lock(&mut self, seen: (i32, Token), holder: Option<SmallLease>) {
        let (mut next, mut notes) = (self.state.clone(), Notes::default());
        next.seen = None;
        next.budget.breaks -= 1;
        let is_unseen = self.state.store.fence() > seen.0;
        let change = self.protocol.break_lock(&self.look(), seen).change;
        let swap = change.map(|change| SmallSwap::of(&self.look(), change));
        if swap.as_ref().is_some_and(|swap| self.waits(swap)) {
            return;
        }
        let after = swap.and_then(|swap| self.apply(&swap));
        match (after, holder) {
            (Some(after), holder) => {
                next.store = after;
                let ended = after.record.is_none_or(|record| record.state.released);
                if let Some(holder) = holder.filter(|_| ended) {
                    notes.violated_if(is_unseen, Violation::BadBreak);
                    next.history.broken |= History::bit(holder.token);
                    if change.is_some_and(|change| change.records.is_some()) {
                        check_record(holder.token, &mut next.history, &mut notes);
                    }
                    self.protocol.check_outcome(&self.state.store, change.as_ref(), &mut notes);
                }
            }
            (None, Some(_)) => notes.fact_if(is_unseen, Fact::OperatorTooLate),
            (None, None) => {}
        }
        self.add(Label::of(NO_TOKEN, "the operator breaks what was seen"), next, notes);
    }

    /// Real time passes. A run that is not stopped is gone at its local deadline. A wipe and a failover take time.
    pub fn passing_time(&mut self) {
        let instant = self.state.instant + 1;
        let Some(seconds) = self.protocol.configuration.clock.get(usize::from(instant)) else { return };
        let then = Micros::from(*seconds) * SECOND;
        let must_end = |server: &Server| matches!(server, Server::Running(running) if running.begun && !running.stopped && running.deadline <= then);
        if self.state.servers.iter().any(must_end) {
            return;
        }
        let later = State { instant, ..self.state.clone() };
        self.add(Label::of(NO_TOKEN, "time passes"), later.clone(), Notes::default());
        let budget = self.state.budget;
        let lost = |contents: Contents| {
            let mut next = later.clone();
            next.store = contents;
            next.history = History {
                lost_writes: true,
                lost_newest: true,
                owner: NO_TOKEN,
                skipped: 0,
                lock_vanished: false,
                released: 0,
                broken: 0,
                unbroken: next.history.unbroken | next.history.broken,
                ..next.history
            };
            next
        };
        if budget.wipes > 0 && (self.state.store != Contents::default()) {
            let mut next = lost(Contents::default());
            next.budget.wipes -= 1;
            self.add(Label::of(NO_TOKEN, "the store is wiped"), next, Notes::default());
        }
        // A replica that has never caught up has nothing.
        let replica = self.state.replica.unwrap_or_default();
        if budget.failovers > 0 && replica != self.state.store {
            let mut next = lost(replica);
            next.budget.failovers -= 1;
            next.replica = None;
            let state = replica.state();
            let claimant = state.claimant.filter(|lease| lease.tick == state.last_started());
            next.history.owner = claimant.map_or(NO_TOKEN, |lease| lease.token);
            self.add(Label::of(NO_TOKEN, "the store fails over to the replica"), next, Notes::default());
        }
    }
}
