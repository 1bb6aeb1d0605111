//! Numbers tokens, versions and fences, of which only equality or order matters.

use crate::small::{FOREIGN, Fence, NO_RECORD, NO_TOKEN, Token};
use crate::state::{History, Server, State};

const NEW_NAMES: usize = 256;

/// Numbers the versions.
pub fn number_versions(state: &mut State) {
    let mut names = [NO_RECORD; NEW_NAMES];
    let mut next = NO_RECORD;
    state.each_version(&mut |version| {
        if *version != NO_RECORD && names[usize::from(*version)] == NO_RECORD {
            next += 1;
            names[usize::from(*version)] = next;
        }
        *version = names[usize::from(*version)];
    });
}

/// Numbers the tokens: first those of the store, then those of the servers and of the messages.
pub fn number_tokens(state: &mut State) {
    let mut names = [NO_TOKEN; NEW_NAMES];
    names[usize::from(FOREIGN)] = FOREIGN;
    let mut next = NO_TOKEN;
    let mut name = |token: &mut Token, names: &mut [Token; NEW_NAMES]| {
        if *token != NO_TOKEN && names[usize::from(*token)] == NO_TOKEN {
            next += 1;
            names[usize::from(*token)] = next;
        }
    };
    let (servers, flights) = (state.servers, std::mem::take(&mut state.flights));
    state.servers = [Server::Idle; 3];
    state.each_token(&mut |token| name(token, &mut names));
    // By what is known of them so far.
    let masked = |token: &mut Token, names: &[Token; NEW_NAMES]| {
        if *token != NO_TOKEN {
            *token = Some(names[usize::from(*token)]).filter(|name| *name != NO_TOKEN).unwrap_or(FOREIGN - 1);
        }
    };
    let mut sorted = servers.map(|server| {
        let mut seen = server;
        seen.each_token(&mut |token| masked(token, &names));
        (seen, server)
    });
    sorted.sort_unstable();
    state.servers = sorted.map(|(_, server)| server);
    for server in &mut state.servers {
        server.each_token(&mut |token| name(token, &mut names));
    }
    if !flights.is_empty() {
        let mut sorted: Vec<_> = flights
            .into_iter()
            .map(|flight| {
                let mut seen = flight;
                seen.each_token(&mut |token| masked(token, &names));
                (seen, flight)
            })
            .collect();
        sorted.sort_unstable();
        state.flights = sorted.into_iter().map(|(_, flight)| flight).collect();
        for flight in &mut state.flights {
            flight.each_token(&mut |token| name(token, &mut names));
        }
    }
    state.each_token(&mut |token| *token = names[usize::from(*token)]);
    let finished = state.store.state().finished();
    let history = &mut state.history;
    history.owner = if finished { NO_TOKEN } else { names[usize::from(history.owner)] };
    let History { recorded, broken, unbroken, released, .. } = history;
    for bits in [recorded, broken, unbroken, released] {
        *bits = renamed(*bits, &names);
    }
}

fn renamed(bits: u16, names: &[Token; NEW_NAMES]) -> u16 {
    if bits == 0 {
        return 0;
    }
    let kept =
        (1..16).filter(|token| bits & History::bit(*token) != 0).map(|token| names[usize::from(token)]);
    kept.filter(|name| *name != NO_TOKEN).fold(0, |bits, name| bits | History::bit(name))
}

/// Replaces fences by their ranks.
pub fn rank_fences(state: &mut State) {
    let mut fences: Vec<Fence> = Vec::with_capacity(8);
    state.each_fence(&mut |fence| {
        if *fence != 0 && !fences.contains(fence) {
            fences.push(*fence);
        }
    });
    fences.sort_unstable();
    state.each_fence(&mut |fence| {
        if let Ok(rank) = fences.binary_search(fence) {
            *fence = Fence::try_from(rank).expect("few fences") + 1;
        }
    });
}
