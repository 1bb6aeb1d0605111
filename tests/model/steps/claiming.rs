//! The steps of a claim: `tick/claim/mod.rs`, `lease/pending.rs` and `store/client`.

use jobs::schedule::Overlap;

use crate::facts::{Fact, Notes};
use crate::protocol::{Explorer, Label, Looked};
use crate::real::SECOND;
use crate::small::{Answer, Ask, Contents, End, Micros, NO_TICK, NO_TOKEN, SmallLease, SmallLook, SmallSwap};
use crate::state::{Cached, Claiming, Decided, Ending, Flight, Running, Server, State};

/// An answer without the instants that the swap has, too.
pub fn timeless(answer: Answer) -> Answer {
    match answer {
        Answer::Won(lease) => Answer::Won(SmallLease { until: 0, ..lease }),
        Answer::Kept(_) => Answer::Kept(0),
        Answer::Restored(_) => Answer::Restored(0),
        other => other,
    }
}

/// A claim that was won.
#[derive(Clone, Copy)]
pub struct Win {
    pub lease: SmallLease,
    pub deadline: Micros,
    pub cached: Option<Cached>,
}

impl Explorer<'_> {
    /// A server begins to claim: a tick that is due, or up to a second early; a takeover; a manual run; or a lock.
    pub fn claims(&mut self) {
        let active = self.state.servers.iter().filter(|server| **server != Server::Idle).count();
        let budget = self.state.budget;
        if active >= self.protocol.configuration.servers || budget.claims == 0 {
            return;
        }
        let index = self.state.servers.iter().position(|server| *server == Server::Idle);
        let index = index.expect("an idle server");
        let (policy, token) = (self.protocol.configuration.policy, self.state.new_token());
        let mut base = self.state.clone();
        base.budget.claims -= 1;
        let new = |tick, only_takes_over| Claiming {
            ask: Ask { token, tick, only_takes_over },
            unanswered: false,
            half: None,
            decided: None,
        };
        for tick in policy.ticks() {
            let due = policy.due_of(tick);
            if self.now >= due - SECOND {
                self.look_to_claim(&base, index, new(tick, false), "claims a tick");
            }
            if self.now >= due && policy.takeovers > 0 {
                self.look_to_claim(&base, index, new(tick, true), "claims to take over");
            }
        }
        if policy.is_manual {
            self.look_to_claim(&base, index, new(NO_TICK, false), "claims a lock");
        } else if budget.manual_runs > 0 {
            base.budget.manual_runs -= 1;
            self.look_to_claim(&base, index, new(NO_TICK, false), "claims a manual run");
        }
        if self.protocol.configuration.swaps_first {
            self.claims_without_look(&base, index, new(NO_TICK, false));
        }
    }

    /// The first request of a manual lock is the swap "nothing there". Its now is that of an earlier answer of any key, which
    /// may have been a second late, or from before a jump of the clock.
    fn claims_without_look(&mut self, base: &State, index: usize, claiming: Claiming) {
        let past = self.protocol.configuration.past_second;
        let mut offset = past;
        let mut estimates = vec![offset, offset - SECOND];
        for jump in &self.protocol.configuration.jumps[..usize::from(self.state.jumps)] {
            offset += Micros::from(*jump) * SECOND;
            estimates.extend([offset, offset - SECOND]);
        }
        for estimate in estimates {
            let look = SmallLook { now: self.time + estimate, record: None, lock: None };
            let decision = self.protocol.claim(&look, claiming.ask);
            if let (Answer::Won(_), Some(change)) = (decision.answer, decision.change) {
                let (answer, swap) = (timeless(decision.answer), SmallSwap::of(&look, change));
                let mut next = base.clone();
                let decided = Some(Decided { answer, swap, without_look: true });
                next.servers[index] = Server::Claiming(Claiming { decided, ..claiming });
                let label = Label::of(claiming.ask.token, "claims a lock without a look");
                self.add(label, next, Notes::default());
            }
        }
    }

    /// A pending claim looks again, sends its swap, or is given up.
    pub fn claiming(&mut self, index: usize, claiming: Claiming) {
        match claiming.decided {
            Some(decided) => self.send_claim(index, claiming, decided),
            None => self.look_to_claim(&self.state.clone(), index, claiming, "claims again"),
        }
        let mut next = self.state.clone();
        next.servers[index] = given_up(claiming);
        self.add(Label::of(claiming.ask.token, "gives the claim up"), next, Notes::default());
        if claiming.unanswered {
            self.crash(index);
        }
    }

    fn look_to_claim(&mut self, base: &State, index: usize, claiming: Claiming, text: &'static str) {
        for looked in self.looks(claiming.half) {
            match looked {
                Looked::Whole(look) => {
                    self.decide_claim(base, index, Claiming { half: None, ..claiming }, look, text);
                }
                Looked::Part(half) => {
                    let mut next = base.clone();
                    next.servers[index] = Server::Claiming(Claiming { half: Some(half), ..claiming });
                    let label = Label::of(claiming.ask.token, text).with("reads a part of the look");
                    self.add(label, next, Notes::default());
                }
            }
        }
    }

    fn decide_claim(
        &mut self,
        base: &State,
        index: usize,
        claiming: Claiming,
        look: SmallLook,
        text: &'static str,
    ) {
        let decision = self.protocol.claim(&look, claiming.ask);
        let label = Label::of(claiming.ask.token, text).with(name(decision.answer));
        let mut notes = Notes::default();
        let by_foreign = decision.answer == Answer::Held && self.state.store.foreign(look.now);
        notes.fact_if(by_foreign, Fact::HeldByForeignLock);
        let mut next = base.clone();
        next.servers[index] = match decision.change {
            Some(change) => {
                let (answer, swap) = (timeless(decision.answer), SmallSwap::of(&look, change));
                let decided = Some(Decided { answer, swap, without_look: false });
                Server::Claiming(Claiming { decided, ..claiming })
            }
            None if self.state.servers[index] == Server::Idle => {
                // Nothing was sent: the token is as new as before.
                return self.add(label, self.state.clone(), notes);
            }
            None => self.after_refusal(claiming, decision.answer),
        };
        self.add(label, next, notes);
    }

    /// The server after a claim that was not won.
    pub fn after_refusal(&self, claiming: Claiming, answer: Answer) -> Server {
        let queues = self.protocol.configuration.policy.overlap == Overlap::Queue
            || self.protocol.configuration.policy.is_manual;
        match answer {
            Answer::Early => Server::Claiming(Claiming { decided: None, ..claiming }),
            Answer::Held if queues => Server::Claiming(Claiming { decided: None, ..claiming }),
            _ => given_up(claiming),
        }
    }

    fn send_claim(&mut self, index: usize, claiming: Claiming, decided: Decided) {
        let Claiming { ask, .. } = claiming;
        let label = Label::of(ask.token, "sends the claim").with(name(decided.answer));
        let asking = Server::Claiming(Claiming { unanswered: true, decided: None, ..claiming });
        let flight = Flight::Claim { ask, answer: decided.answer, swap: decided.swap, sent: self.time };
        let may_fail = self.state.budget.network > 0;
        if may_fail {
            let mut next = faulty(self.state, index, asking);
            next.flights.push(flight);
            self.add(Label { result: "in flight", ..label }, next, Notes::default());
        }
        if self.waits(&decided.swap) {
            return;
        }
        let Some(after) = self.apply(&decided.swap) else {
            return self.claim_refused(index, claiming, decided);
        };
        let mut applied = self.state.clone();
        let mut notes = Notes::default();
        self.note_claim(&mut applied, (after, &decided.swap), ask, decided.answer, &mut notes);
        notes.fact_if(decided.without_look, Fact::ClaimedWithoutLook);
        if may_fail && self.protocol.copies_matter() {
            let mut next = faulty(&applied, index, asking);
            let mut notes = notes.clone();
            next.servers[index] = self.answered_claim(index, claiming, decided.answer, &mut next, &mut notes);
            next.flights.push(flight);
            self.add(Label { result: "applied, and a copy in flight", ..label }, next, notes);
        }
        if may_fail {
            let mut next = faulty(&applied, index, asking);
            if let Some(win) = self.win(decided.answer, &after, self.time) {
                let Win { lease, deadline, cached } = win;
                // The answer's now, until it arrives.
                let cached = cached.map(|cached| Cached { offset: self.now, ..cached });
                next.flights.push(Flight::Won { ask, lease, deadline, cached });
            }
            self.add(Label { result: "applied, the answer is late", ..label }, next, notes.clone());
        }
        let mut next = applied;
        next.servers[index] = self.answered_claim(index, claiming, decided.answer, &mut next, &mut notes);
        self.add(label.with("applied"), next, notes);
    }

    /// Marks a claim's swap as applied.
    pub fn note_claim(
        &self,
        next: &mut State,
        (after, swap): (Contents, &SmallSwap),
        ask: Ask,
        answer: Answer,
        notes: &mut Notes,
    ) {
        next.store = after;
        let alive = self.state.server_with(ask.token).is_some();
        let applied = self.applied(&after, swap, alive);
        self.protocol.check_claim(applied, ask, answer, &mut next.history, notes);
    }

    /// The server when the answer to its claim arrives at once.
    fn answered_claim(
        &self,
        index: usize,
        claiming: Claiming,
        answer: Answer,
        next: &mut State,
        notes: &mut Notes,
    ) -> Server {
        debug_assert_eq!(self.state.servers[index].token(), claiming.ask.token);
        match self.win(answer, &next.store, self.time) {
            Some(win) => self.won(win, next, notes),
            None => self.after_refusal(claiming, answer),
        }
    }

    fn claim_refused(&mut self, index: usize, claiming: Claiming, decided: Decided) {
        let label = Label::of(claiming.ask.token, "sends the claim").with("changed, sends the same again");
        if self.protocol.reuses_decision(decided.without_look) {
            let mut next = self.state.clone();
            let decided = Some(Decided { swap: self.reused(decided.swap), ..decided });
            next.servers[index] = Server::Claiming(Claiming { decided, ..claiming });
            return self.add(label, next, Notes::default());
        }
        let again = Claiming { decided: None, ..claiming };
        let text = "sends the claim, which is refused, and decides anew";
        self.refused_by_commit(&decided.swap);
        self.decide_claim(&self.state.clone(), index, again, self.look(), text);
    }

    /// A swap with the version and the lock that the store has by now.
    pub fn reused(&self, swap: SmallSwap) -> SmallSwap {
        let lock = self.state.store.live_lock(self.now);
        SmallSwap {
            expected: self.state.store.version(),
            expected_lock: lock.map_or(NO_TOKEN, |lock| lock.token),
            ..swap
        }
    }

    /// What the server knows when it learns that it has won; `None` if it has not.
    pub fn win(&self, answer: Answer, after: &Contents, sent: Micros) -> Option<Win> {
        let Answer::Won(lease) = answer else { return None };
        let record = after.record?;
        let until = record.state.claimant?.until;
        let lease = SmallLease { fence: record.fence, until, ..lease };
        let deadline = self.protocol.deadline(sent, self.time, until - self.now);
        Some(Win { lease, deadline, cached: self.cached(after, sent) })
    }

    /// The server that has won: it starts the job if it still can.
    pub fn won(&self, win: Win, next: &mut State, notes: &mut Notes) -> Server {
        let Win { lease, mut deadline, cached } = win;
        if self.protocol.starts_late_wins() {
            deadline = deadline.max(self.time + 1);
        }
        if self.time >= deadline {
            notes.facts.push(Fact::WonTooLate);
            return Server::Ending(Ending {
                lease,
                end: End::NotStarted,
                finish_called: false,
                cached,
                decided: None,
            });
        }
        let begun = !self.protocol.configuration.starts_late;
        if begun {
            self.protocol.check_start(lease, &mut next.history, notes);
        }
        Server::Running(Running {
            lease,
            deadline,
            begun,
            stopped: false,
            cached,
            half: None,
            extension: None,
            finish_called: false,
        })
    }

    /// The record as the server has just written it, if it caches records.
    pub fn cached(&self, after: &Contents, sent: Micros) -> Option<Cached> {
        let record = after.record.filter(|_| self.protocol.configuration.caches)?;
        let offset = self.protocol.estimate(self.now, sent, self.time);
        Some(Cached { version: record.version, offset })
    }
}

/// A claim that is dropped: a task releases what its unanswered requests may have won.
fn given_up(claiming: Claiming) -> Server {
    let Ask { token, tick, .. } = claiming.ask;
    if !claiming.unanswered {
        return Server::Idle;
    }
    let lease = SmallLease { token, tick, attempt: 1, takeovers: 0, fence: 0, until: 0 };
    Server::Ending(Ending { lease, end: End::NotStarted, finish_called: false, cached: None, decided: None })
}

pub fn name(answer: Answer) -> &'static str {
    match answer {
        Answer::Won(lease) if lease.fence == 0 => "won",
        Answer::Won(_) => "won again",
        Answer::WasLost => "was won, and is over",
        Answer::Early => "early",
        Answer::Taken => "taken",
        Answer::Superseded => "superseded",
        Answer::Ahead => "ahead",
        Answer::Late => "late",
        Answer::Paused => "paused",
        Answer::Held => "held",
        Answer::Kept(_) => "kept",
        Answer::Restored(_) => "restored",
        Answer::Lost => "lost",
        Answer::Released => "released",
        Answer::ReleaseRestored => "restored as released",
        Answer::NotHeld => "not held",
        Answer::Operated => "done",
    }
}

/// A state with one more fault of the network, and another state of the server.
pub fn faulty(state: &State, index: usize, server: Server) -> State {
    let mut next = state.clone();
    next.budget.network -= 1;
    next.servers[index] = server;
    next
}
