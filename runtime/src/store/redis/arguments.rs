//! What the scripts are told, in the order that their heads name.

use std::time::Duration;

use singleton_jobs_policy::{Missed, Overlap};

use super::super::{Announcement, Claim, Ending, Lease, Requested, RunRequest, What};
use crate::Timestamp;

pub(super) fn of_claim(claim: &Claim) -> Vec<String> {
    let Claim { token, server, ttl, what, remember, waits } = claim;
    let mut args = vec![token.to_string(), server.to_string(), micros(*ttl), count(*remember), flag(*waits)];
    match what {
        What::Now => args.push("now".to_owned()),
        What::Lock | What::Once | What::Leader | What::Slot(_) => args.push(what.kind().as_str().to_owned()),
        What::Requested(id) => args.extend(["requested".to_owned(), id.clone()]),
        What::Tick(ask) => args.extend([
            "tick".to_owned(),
            instant(ask.tick),
            micros(ask.delay),
            micros(ask.grace),
            flag(ask.overlap == Overlap::Skip),
            ask.takeovers.to_string(),
            flag(ask.missed == Missed::RunOnce),
            ask.schedule.to_string(),
            micros(ask.known_for),
        ]),
    }
    args
}

pub(super) fn of_lease(lease: &Lease) -> Vec<String> {
    vec![
        lease.token.to_string(),
        lease.server.to_string(),
        micros(lease.ttl),
        lease.tick.map(instant).unwrap_or_default(),
        lease.attempt.to_string(),
        lease.fence.to_string(),
        instant(lease.since),
        instant(lease.until),
        serde_json::json!(lease.progress).to_string(),
        lease.kind.as_str().to_owned(),
    ]
}

pub(super) fn of_slot_claim(claim: &Claim, of: u32) -> Vec<String> {
    let Claim { token, server, ttl, waits, .. } = claim;
    vec![token.to_string(), server.to_string(), micros(*ttl), of.to_string(), flag(*waits)]
}

pub(super) fn of_slot(lease: &Lease, of: u32) -> Vec<String> {
    let Lease { token, server, ttl, fence, since, until, .. } = lease;
    let (fence, since, until) = (fence.to_string(), instant(*since), instant(*until));
    vec![token.to_string(), server.to_string(), micros(*ttl), of.to_string(), fence, since, until]
}

pub(super) fn of_slot_release(lease: &Lease) -> Vec<String> {
    vec![lease.token.to_string(), lease.fence.to_string()]
}

pub(super) fn of_ending(end: &Ending) -> Vec<String> {
    vec![
        end.outcome.as_str().to_owned(),
        flag(end.outcome.is_finished()),
        flag(end.outcome.is_failure()),
        serde_json::json!(end.error).to_string(),
        serde_json::json!(end.failed_tries).to_string(),
        count(end.remember),
        end.done_for.map(micros).unwrap_or_default(),
    ]
}

pub(super) fn of_request(request: &RunRequest) -> Vec<String> {
    vec![request.id.clone(), request.by.clone(), micros(request.ttl)]
}

pub(super) fn of_hint(key: &str, request: &Requested) -> Vec<String> {
    vec![key.to_owned(), request.id.clone(), instant(request.until)]
}

pub(super) fn of_announcement(announcement: &Announcement) -> Vec<String> {
    let Announcement { server, about, ttl } = announcement;
    vec![server.clone(), about.as_ref().to_owned(), micros(*ttl)]
}

/// Lua counts in floats, exact up to 2^53: an instant of today plus twice this stays below.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

pub(super) fn micros(duration: Duration) -> String {
    duration.min(LONGEST).as_micros().to_string()
}

fn instant(timestamp: Timestamp) -> String {
    timestamp.as_micros().to_string()
}

pub(super) fn flag(set: bool) -> String {
    u8::from(set).to_string()
}

/// No list in Redis is longer.
pub(super) fn count(records: usize) -> String {
    u32::try_from(records).unwrap_or(u32::MAX).to_string()
}
