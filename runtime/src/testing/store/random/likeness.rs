//! Answers that are equal, but for how long a stranger's lock still lasts: only the store knows, to the millisecond.

use std::time::Duration;

use crate::Timestamp;
use crate::store::model::State;
use crate::store::{ClaimReply, ForgetReply, HeldLock, Holder, Unfinished, Verdict};

/// A busy machine may interrupt the store between its looks at the clock and at the lock.
const INTERRUPTION: Duration = Duration::from_millis(100);

pub(super) fn alike(answer: &Verdict, expected: &Verdict, model: &State, at: Timestamp) -> bool {
    let decision = match (&answer.decision, &expected.decision) {
        (ClaimReply::Held(answer), ClaimReply::Held(expected)) => same_holder(answer, expected),
        (answer, expected) => answer == expected,
    };
    let ours = model.claimant.as_ref().is_some_and(|claimant| !claimant.released && claimant.until > at);
    let unfinished = match (answer.unfinished, expected.unfinished) {
        (Some(answer), Some(expected)) if !ours => same_rest(answer, expected),
        (answer, expected) => answer == expected,
    };
    decision && unfinished && answer.other_schedule == expected.other_schedule
}

pub(super) fn forgot_alike(answer: &ForgetReply, expected: &ForgetReply) -> bool {
    match (answer, expected) {
        (ForgetReply::Held(answer), ForgetReply::Held(expected)) => same_holder(answer, expected),
        (answer, expected) => answer == expected,
    }
}

pub(super) fn broke_alike(answer: &[HeldLock], expected: &[HeldLock]) -> bool {
    let same = |(answer, expected): (&HeldLock, &HeldLock)| {
        same_holder(&answer.holder, &expected.holder)
            && (&answer.key, answer.kind, answer.fence) == (&expected.key, expected.kind, expected.fence)
    };
    answer.len() == expected.len() && answer.iter().zip(expected).all(same)
}

fn same_holder(answer: &Holder, expected: &Holder) -> bool {
    let remaining = match expected.server {
        None => close(answer.remaining, expected.remaining),
        Some(_) => answer.remaining == expected.remaining,
    };
    remaining && answer.server == expected.server && answer.since == expected.since
}

fn same_rest(answer: Unfinished, expected: Unfinished) -> bool {
    answer.tick == expected.tick && close(answer.remaining, expected.remaining)
}

/// Whether there is any rest at all is never in doubt.
fn close(answer: Option<Duration>, expected: Option<Duration>) -> bool {
    match (answer, expected) {
        (Some(answer), Some(expected)) => {
            answer.is_zero() == expected.is_zero() && answer.abs_diff(expected) <= INTERRUPTION
        }
        (answer, expected) => answer == expected,
    }
}
