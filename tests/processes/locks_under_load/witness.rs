//! A line to the parent for whatever the store answers about leases.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jobs::Timestamp;
use jobs::store::{FenceChange, KeyState, Swap, SwapReply, Swapped};
use jobs::testing::{Hook, HookFuture, Request};

use support::worker;

/// Tells, each with times in microseconds of the machine's clock, which is the store's, too:
///
/// - `won token fence since until sent answered`: a swap that won, or confirmed a win whose answer was lost
/// - `asked sent answered`: a look, or a swap that would have won and was refused
/// - `kept token until`
/// - `letting-go token sent`, and `let-go token at` when the store has confirmed it
pub struct Witness {
    tells: bool,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// When a swap was sent, by its nonce.
    swaps: HashMap<u64, i64>,
    /// When the newest look at a key was sent.
    looks: HashMap<String, i64>,
    /// The leases that this process has asked for, by their tokens.
    leases: HashMap<Arc<str>, Lease>,
}

struct Lease {
    key: String,
    won: bool,
}

/// A lease as it is in a state.
struct Held {
    token: Arc<str>,
    fence: Option<i64>,
    since: Timestamp,
    until: Timestamp,
}

pub fn now() -> i64 {
    Timestamp::now().as_micros()
}

/// The leases in a state that were not ended.
fn held(state: Option<&KeyState>) -> Vec<Held> {
    let Some(state) = state else { return Vec::new() };
    let claimant = state.claimant.iter().filter(|_| !state.released).map(|claimant| Held {
        token: claimant.token.clone(),
        fence: None,
        since: claimant.since,
        until: claimant.until,
    });
    let slots = state.slots.iter().map(|slot| Held {
        token: slot.token.clone(),
        fence: Some(slot.fence).filter(|fence| *fence != 0),
        since: slot.since,
        until: slot.until,
    });
    claimant.chain(slots).collect()
}

/// The lease that a swap would win: of slots, the one whose fence is not known yet.
fn wanted(swap: &Swap) -> Option<Held> {
    let wins = swap.change.fence == FenceChange::Next;
    held(swap.change.state.as_deref()).into_iter().rfind(|held| wins && held.fence.is_none())
}

impl Witness {
    pub fn new(tells: bool) -> Self {
        Self { tells, seen: Mutex::default() }
    }

    fn tell(&self, line: &str) {
        if self.tells {
            worker::tell(line);
        }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A swap is sent.
    fn sent(&self, key: &str, swap: &Swap) {
        let mut seen = self.seen();
        seen.swaps.insert(swap.nonce, now());
        if let Some(wanted) = wanted(swap) {
            seen.leases.entry(wanted.token).or_insert(Lease { key: key.to_owned(), won: false });
        }
        if !swap.change.grants_lease {
            for token in ended(&seen, key, swap) {
                self.tell(&format!("letting-go {token} {}", now()));
            }
        }
    }

    fn granted(&self, key: &str, swap: &Swap, swapped: &Swapped, sent: i64) {
        let mut seen = self.seen();
        let held = held(swap.change.state.as_deref());
        for Held { token, fence, since, until } in &held {
            let Some(lease) = seen.leases.get_mut(token).filter(|lease| lease.key == key) else { continue };
            let until = until.as_micros();
            if std::mem::replace(&mut lease.won, true) {
                self.tell(&format!("kept {token} {until}"));
            } else {
                let (fence, since) = (fence.unwrap_or(swapped.fence), since.as_micros());
                self.tell(&format!("won {token} {fence} {since} {until} {sent} {}", now()));
            }
        }
        // What is not in the record any more was lost, and is not let go later.
        seen.leases.retain(|token, lease| {
            lease.key != key || !lease.won || held.iter().any(|held| held.token == *token)
        });
    }
}

/// The leases of this process that a swap ends.
fn ended(seen: &Seen, key: &str, swap: &Swap) -> Vec<Arc<str>> {
    let held = held(swap.change.state.as_deref());
    let ours = seen.leases.iter().filter(|(_, lease)| lease.won && lease.key == key);
    let ended = ours.filter(|(token, _)| held.iter().all(|held| held.token != **token));
    ended.map(|(token, _)| token.clone()).collect()
}

impl Hook for Witness {
    fn before<'a>(&'a self, request: Request<'a>) -> HookFuture<'a> {
        match request {
            Request::Look(key) => drop(self.seen().looks.insert(key.to_owned(), now())),
            Request::Swap(key, swap) => self.sent(key, swap),
            _ => {}
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn after<'a>(&'a self, request: Request<'a>) -> HookFuture<'a> {
        if let Request::Look(key) = request
            && !key.starts_with('#')
            && let Some(sent) = self.seen().looks.remove(key)
        {
            self.tell(&format!("asked {sent} {}", now()));
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn swapped(&self, key: &str, swap: &Swap, reply: &SwapReply) {
        let sent = self.seen().swaps.remove(&swap.nonce).unwrap_or_else(now);
        match reply {
            SwapReply::Swapped(swapped) if swap.change.grants_lease => self.granted(key, swap, swapped, sent),
            SwapReply::Swapped(swapped) => {
                let mut seen = self.seen();
                for token in ended(&seen, key, swap) {
                    seen.leases.remove(&token);
                    self.tell(&format!("let-go {token} {}", swapped.now.as_micros()));
                }
            }
            SwapReply::Changed(_) if wanted(swap).is_some() => self.tell(&format!("asked {sent} {}", now())),
            SwapReply::Changed(_) => {}
        }
    }
}
