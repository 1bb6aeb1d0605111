//! Makes equal what no future step can tell apart, so that fewer states are explored.
//!
//! - Tokens and versions are only compared: they are numbered in the order in which they are found. Fences are replaced by
//!   their rank where every new fence is greater than all before.
//! - Servers have no names: they are sorted, and so are messages.
//! - A swap that can never be applied again is forgotten; its sender looks again, which is the same as its refusal.
//! - An instant that has passed is zero, unless the store's clock can go back.
//! - A claimant that was released, and that nothing refers to, is forgotten.

use crate::merging::numbering::{number_tokens, rank_fences};
use crate::protocol::Protocol;
use crate::small::{
    ANY_TIME, Contents, FOREIGN, GONE, Micros, NEVER, NO_RECORD, NO_TICK, NO_TOKEN, SmallLease,
    SmallLockChange, SmallState, SmallSwap, Token, VersionNumber,
};
use crate::state::{Cached, Decided, Flight, Half, Server, State};
use crate::steps::surroundings::SAME_INSTANT;

impl Protocol {
    /// Replaces a state by the one that stands for it.
    pub fn settle(&self, state: &mut State) {
        if state.budget.failovers == 0 {
            state.replica = None;
        }
        let aging = Aging { protocol: self, now: self.store_now(state), time: self.time(state) };
        aging.tidy_contents(&mut state.store);
        if let Some(replica) = &mut state.replica {
            aging.tidy_contents(replica);
        }
        aging.tidy_servers(state);
        aging.tidy_flights(state);
        if self.compares_versions() {
            self.rename_versions(state);
        }
        if !self.configuration.loses_records() && self.configuration.forgets_instants() {
            Self::forget_what_is_over(state);
        }
        number_tokens(state);
        if self.configuration.ranks_fences() {
            rank_fences(state);
        }
    }

    /// Numbers the versions, and forgets swaps that expect one that is gone.
    fn rename_versions(&self, state: &mut State) {
        let current = state.store.version();
        let fails_over = state.budget.failovers > 0;
        let older = if fails_over { state.replica.unwrap_or_default().version() } else { current };
        let no_record = current == NO_RECORD
            || older == NO_RECORD
            || state.budget.wipes > 0
            || self.configuration.policy.is_manual;
        let rename = |version: VersionNumber| match version {
            NO_RECORD => no_record.then_some(NO_RECORD),
            version if version == current => Some(1),
            version if version == older => Some(2),
            _ => None,
        };
        let locks = [state.store.lock, state.replica.and_then(|replica| replica.lock)];
        let is_possible = |token: Token| {
            [NO_TOKEN, FOREIGN].contains(&token) || locks.iter().flatten().any(|lock| lock.token == token)
        };
        let shares_lock = self.configuration.policy.shares_lock;
        let (now, goes_back) = (self.store_now(state), self.clock_goes_back(state));
        let live = |swap: &mut SmallSwap| {
            let Some(version) = rename(swap.expected) else { return false };
            swap.expected = version;
            let too_late = swap.change.not_after < now && !goes_back;
            !too_late && (!shares_lock || is_possible(swap.expected_lock))
        };
        let check = |decided: &mut Option<Decided>| {
            if decided.as_mut().is_some_and(|decided| !live(&mut decided.swap)) {
                *decided = None;
            }
        };
        let check_cached = |cached: &mut Option<Cached>| {
            *cached =
                cached.and_then(|cached| rename(cached.version).map(|version| Cached { version, ..cached }));
        };
        let check_half = |half: &mut Option<Half>| {
            if let Some(Half::Record(Some(record))) = half {
                record.version = rename(record.version).unwrap_or(GONE);
            }
        };
        for server in &mut state.servers {
            match server {
                Server::Idle => {}
                Server::Claiming(claiming) => {
                    check(&mut claiming.decided);
                    check_half(&mut claiming.half);
                }
                Server::Running(running) => {
                    check(&mut running.extension);
                    check_half(&mut running.half);
                    check_cached(&mut running.cached);
                }
                Server::Ending(ending) => {
                    check(&mut ending.decided);
                    check_cached(&mut ending.cached);
                }
            }
        }
        state.flights.retain_mut(|flight| match flight {
            Flight::Won { cached, .. } | Flight::Kept { cached, .. } => {
                check_cached(cached);
                true
            }
            flight => flight.swap_mut().is_none_or(live),
        });
        for contents in std::iter::once(&mut state.store).chain(&mut state.replica) {
            if let Some(record) = &mut contents.record {
                record.version = rename(record.version).expect("a version that is there");
            }
        }
    }

    /// Forgets a claimant that is over, and the starts of ticks that no server can start any more. Only
    /// where no write is lost.
    fn forget_what_is_over(state: &mut State) {
        let mut wanted = [false; crate::state::MOST_TICKS + 2];
        for tick in state.servers.iter().filter_map(Server::tick) {
            wanted[usize::from(tick)] = true;
        }
        for flight in &state.flights {
            if let Flight::Claim { ask, .. } | Flight::Won { ask, .. } = flight {
                wanted[usize::from(ask.tick)] = true;
            }
        }
        let lock = state.store.lock.map(|lock| lock.token);
        let mut used = 0_u32;
        let bit = |token: Token| 1_u32.checked_shl(token.into()).unwrap_or_default();
        for server in &mut state.servers {
            server.each_token(&mut |token| used |= bit(*token));
        }
        for flight in &mut state.flights {
            flight.each_token(&mut |token| used |= bit(*token));
        }
        if let Some(transaction) = state.transaction {
            used |= bit(transaction.token);
        }
        let Some(record) = &mut state.store.record else { return };
        let finished = record.finished();
        let key = &mut record.state;
        if let Some(claimant) = key.claimant.as_mut().filter(|_| key.released) {
            claimant.until = 0;
            // One that was not released is needed: the next win records its crash.
            if used & bit(claimant.token) == 0 && lock != Some(claimant.token) && !finished {
                (key.claimant, key.released, key.broken) = (None, false, false);
                record.lease = None;
            }
        }
        let (mark, started) = (key.marked(), key.last_started());
        state.history.skipped &= (1 << mark) | (1 << started);
        for (tick, starts) in (NO_TICK..).zip(&mut state.history.starts) {
            if tick < mark && tick != started && !wanted[usize::from(tick)] {
                *starts = 0;
            }
        }
    }
}

/// The passing of time for a state.
struct Aging<'a> {
    protocol: &'a Protocol,
    /// The store's clock.
    now: Micros,
    /// Real time.
    time: Micros,
}

impl Aging<'_> {
    fn forgets(&self) -> bool {
        self.protocol.configuration.forgets_instants()
    }

    fn tidy_contents(&self, contents: &mut Contents) {
        contents.lock = contents.lock.filter(|lock| !self.forgets() || lock.until > self.now);
        if let Some(record) = &mut contents.record {
            self.tidy_state(&mut record.state);
        }
    }

    fn tidy_state(&self, state: &mut SmallState) {
        if !self.forgets() {
            return;
        }
        if state.expires.is_some_and(|expires| expires <= self.now) {
            // An expired record counts as none.
            *state = SmallState { expires: Some(0), ..SmallState::default() };
        }
        if let Some(claimant) = &mut state.claimant
            && claimant.until <= self.now
        {
            claimant.until = 0;
        }
        state.broken_until = state.broken_until.filter(|until| *until > self.now);
    }

    fn tidy_lease(&self, lease: &mut SmallLease) {
        let is_over = self.forgets() && lease.until <= self.now;
        if is_over || !self.protocol.configuration.loses_records() {
            lease.until = 0;
        }
    }

    fn tidy_swap(&self, swap: &mut SmallSwap) {
        if !self.forgets() {
            return;
        }
        let change = &mut swap.change;
        if change.not_before <= self.now {
            change.not_before = ANY_TIME;
        }
        // A swap may be up to that much later than the instant.
        if change.not_after >= self.protocol.last_instant() + SAME_INSTANT {
            change.not_after = NEVER;
        }
        if let Some(state) = &mut change.state {
            self.tidy_state(state);
        }
        if let SmallLockChange::Set(lock) = change.lock
            && lock.until <= self.now
        {
            change.lock = SmallLockChange::Delete;
        }
    }

    fn tidy_decided(&self, decided: &mut Option<Decided>) {
        if let Some(decided) = decided {
            self.tidy_swap(&mut decided.swap);
        }
    }

    fn tidy_servers(&self, state: &mut State) {
        for server in &mut state.servers {
            match server {
                Server::Idle => {}
                Server::Claiming(claiming) => self.tidy_decided(&mut claiming.decided),
                Server::Running(running) => {
                    self.tidy_lease(&mut running.lease);
                    self.tidy_decided(&mut running.extension);
                    running.deadline = self.useful(running.deadline);
                }
                Server::Ending(ending) => {
                    self.tidy_lease(&mut ending.lease);
                    self.tidy_decided(&mut ending.decided);
                }
            }
        }
    }

    fn tidy_flights(&self, state: &mut State) {
        let servers = state.servers;
        let is_claiming = |token: Token| {
            servers.iter().any(|server| matches!(server, Server::Claiming(_)) && server.token() == token)
        };
        let is_running = |token: Token| {
            servers.iter().any(|server| matches!(server, Server::Running(_)) && server.token() == token)
        };
        state.flights.retain_mut(|flight| {
            if let Some(swap) = flight.swap_mut() {
                self.tidy_swap(swap);
            }
            let longest = self.protocol.configuration.policy.ttl - self.protocol.margin;
            let expect = |sent: Micros, waits: bool| {
                if waits && sent.saturating_add(longest) > self.time { sent } else { ANY_TIME }
            };
            match flight {
                Flight::Claim { ask, sent, .. } => {
                    *sent = expect(*sent, is_claiming(ask.token));
                    true
                }
                Flight::Extend { lease, sent, .. } => {
                    self.tidy_lease(lease);
                    *sent = expect(*sent, is_running(lease.token));
                    true
                }
                Flight::Won { ask, lease, deadline, .. } => {
                    self.tidy_lease(lease);
                    *deadline = self.useful(*deadline);
                    is_claiming(ask.token)
                }
                Flight::Kept { token, deadline, .. } => {
                    *deadline = self.useful(*deadline);
                    is_running(*token)
                }
                Flight::Release { lease, .. } => {
                    self.tidy_lease(lease);
                    true
                }
            }
        });
    }

    /// A deadline, unless it has passed.
    fn useful(&self, deadline: Micros) -> Micros {
        if deadline > self.time { deadline } else { ANY_TIME }
    }
}
