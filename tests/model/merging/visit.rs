//! Visits the tokens and the fences of a state, to number them anew.

use crate::small::{
    Answer, Contents, Fence, SmallFence, SmallLock, SmallLockChange, SmallRecord, SmallState, SmallSwap,
    Token, VersionNumber,
};
use crate::state::{Decided, Ending, Flight, Half, Running, Server, State};

impl State {
    /// Visits every token of the state, except for those in the history.
    pub fn each_token(&mut self, visit: &mut impl FnMut(&mut Token)) {
        contents_tokens(&mut self.store, visit);
        if let Some(replica) = &mut self.replica {
            contents_tokens(replica, visit);
        }
        if let Some((_, token)) = &mut self.seen {
            visit(token);
        }
        if let Some(transaction) = &mut self.transaction {
            visit(&mut transaction.token);
        }
        for server in &mut self.servers {
            server.each_token(visit);
        }
        for flight in &mut self.flights {
            flight.each_token(visit);
        }
    }

    /// Visits every version of the state.
    pub fn each_version(&mut self, visit: &mut impl FnMut(&mut VersionNumber)) {
        for contents in std::iter::once(&mut self.store).chain(&mut self.replica) {
            if let Some(record) = &mut contents.record {
                visit(&mut record.version);
            }
        }
        let (mut decided, mut cached) = (Vec::new(), Vec::new());
        for server in &mut self.servers {
            match server {
                Server::Idle => {}
                Server::Claiming(claiming) => decided.extend(&mut claiming.decided),
                Server::Running(running) => {
                    decided.extend(&mut running.extension);
                    cached.extend(&mut running.cached);
                }
                Server::Ending(ending) => {
                    decided.extend(&mut ending.decided);
                    cached.extend(&mut ending.cached);
                }
            }
        }
        let mut swaps: Vec<_> = decided.into_iter().map(|decided| &mut decided.swap).collect();
        for flight in &mut self.flights {
            match flight {
                Flight::Won { cached: found, .. } | Flight::Kept { cached: found, .. } => {
                    cached.extend(found);
                }
                flight => swaps.extend(flight.swap_mut()),
            }
        }
        let expected = swaps.into_iter().map(|swap| &mut swap.expected);
        for version in expected.chain(cached.into_iter().map(|cached| &mut cached.version)) {
            visit(version);
        }
    }

    /// Visits every fence of the state.
    pub fn each_fence(&mut self, visit: &mut impl FnMut(&mut Fence)) {
        for contents in std::iter::once(&mut self.store).chain(&mut self.replica) {
            if let Some(record) = &mut contents.record {
                visit(&mut record.fence);
                lease_fence(record, visit);
            }
        }
        if let Some((fence, _)) = &mut self.seen {
            visit(fence);
        }
        if let Some(transaction) = &mut self.transaction {
            visit(&mut transaction.fence);
        }
        for server in &mut self.servers {
            match server {
                Server::Running(Running { lease, half, extension, .. }) => {
                    visit(&mut lease.fence);
                    half_fence(half, visit);
                    decided_fences(extension, visit);
                }
                Server::Ending(Ending { lease, decided, .. }) => {
                    visit(&mut lease.fence);
                    decided_fences(decided, visit);
                }
                Server::Claiming(claiming) => {
                    half_fence(&mut claiming.half, visit);
                    decided_fences(&mut claiming.decided, visit);
                }
                Server::Idle => {}
            }
        }
        for flight in &mut self.flights {
            match flight {
                Flight::Claim { answer, swap, .. } => {
                    answer_fence(answer, visit);
                    swap_fence(swap, visit);
                }
                Flight::Extend { lease, swap, .. } | Flight::Release { lease, swap } => {
                    visit(&mut lease.fence);
                    swap_fence(swap, visit);
                }
                Flight::Won { lease, .. } => visit(&mut lease.fence),
                Flight::Kept { .. } => {}
            }
        }
        visit(&mut self.history.highest_fence);
    }
}

fn decided_fences(decided: &mut Option<Decided>, visit: &mut impl FnMut(&mut Fence)) {
    if let Some(decided) = decided {
        answer_fence(&mut decided.answer, visit);
        swap_fence(&mut decided.swap, visit);
    }
}

fn answer_fence(answer: &mut Answer, visit: &mut impl FnMut(&mut Fence)) {
    if let Answer::Won(lease) = answer {
        visit(&mut lease.fence);
    }
}

fn swap_fence(swap: &mut SmallSwap, visit: &mut impl FnMut(&mut Fence)) {
    if let SmallFence::AtLeast(fence) = &mut swap.change.fence {
        visit(fence);
    }
}

fn lease_fence(record: &mut SmallRecord, visit: &mut impl FnMut(&mut Fence)) {
    if let Some(lease) = &mut record.lease {
        visit(&mut lease.fence);
    }
}

fn record_tokens(record: &mut SmallRecord, visit: &mut impl FnMut(&mut Token)) {
    state_tokens(&mut record.state, visit);
    if let Some(lease) = &mut record.lease {
        visit(&mut lease.token);
    }
}

fn contents_tokens(contents: &mut Contents, visit: &mut impl FnMut(&mut Token)) {
    if let Some(record) = &mut contents.record {
        record_tokens(record, visit);
    }
    if let Some(lock) = &mut contents.lock {
        visit(&mut lock.token);
    }
}

fn state_tokens(state: &mut SmallState, visit: &mut impl FnMut(&mut Token)) {
    if let Some(claimant) = &mut state.claimant {
        visit(&mut claimant.token);
    }
}

fn swap_tokens(swap: &mut SmallSwap, visit: &mut impl FnMut(&mut Token)) {
    visit(&mut swap.expected_lock);
    if let Some(state) = &mut swap.change.state {
        state_tokens(state, visit);
    }
    if let SmallLockChange::Set(lock) = &mut swap.change.lock {
        visit(&mut lock.token);
    }
}

fn half_tokens(half: &mut Option<Half>, visit: &mut impl FnMut(&mut Token)) {
    match half {
        Some(Half::Clock(_, Some(SmallLock { token, .. }))) => visit(token),
        Some(Half::Record(Some(record))) => record_tokens(record, visit),
        _ => {}
    }
}

fn half_fence(half: &mut Option<Half>, visit: &mut impl FnMut(&mut Fence)) {
    if let Some(Half::Record(Some(record))) = half {
        visit(&mut record.fence);
        lease_fence(record, visit);
    }
}

fn answer_token(answer: &mut Answer, visit: &mut impl FnMut(&mut Token)) {
    if let Answer::Won(lease) = answer {
        visit(&mut lease.token);
    }
}

fn decided_tokens(decided: &mut Option<Decided>, visit: &mut impl FnMut(&mut Token)) {
    if let Some(decided) = decided {
        answer_token(&mut decided.answer, visit);
        swap_tokens(&mut decided.swap, visit);
    }
}

impl Server {
    pub fn each_token(&mut self, visit: &mut impl FnMut(&mut Token)) {
        match self {
            Self::Idle => {}
            Self::Claiming(claiming) => {
                visit(&mut claiming.ask.token);
                half_tokens(&mut claiming.half, visit);
                decided_tokens(&mut claiming.decided, visit);
            }
            Self::Running(running) => {
                visit(&mut running.lease.token);
                half_tokens(&mut running.half, visit);
                decided_tokens(&mut running.extension, visit);
            }
            Self::Ending(ending) => {
                visit(&mut ending.lease.token);
                decided_tokens(&mut ending.decided, visit);
            }
        }
    }
}

impl Flight {
    pub fn each_token(&mut self, visit: &mut impl FnMut(&mut Token)) {
        match self {
            Self::Claim { ask, answer, swap, .. } => {
                visit(&mut ask.token);
                answer_token(answer, visit);
                swap_tokens(swap, visit);
            }
            Self::Won { ask, lease, .. } => {
                visit(&mut ask.token);
                visit(&mut lease.token);
            }
            Self::Extend { lease, swap, .. } | Self::Release { lease, swap } => {
                visit(&mut lease.token);
                swap_tokens(swap, visit);
            }
            Self::Kept { token, .. } => visit(token),
        }
    }

    /// The swap that is under way, if it is one.
    pub fn swap_mut(&mut self) -> Option<&mut SmallSwap> {
        match self {
            Self::Claim { swap, .. } | Self::Extend { swap, .. } | Self::Release { swap, .. } => Some(swap),
            Self::Won { .. } | Self::Kept { .. } => None,
        }
    }
}
