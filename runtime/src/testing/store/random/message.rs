//! The messages of a sequence, as the store takes them.

use std::time::Duration;

use crate::store::{Ending, FailedTry, Lease, Progress, TickClaim, What, model};
use crate::{Missed, Overlap, Timestamp};

use super::sequence::{Ask, End, REQUESTS, SCHEDULES, Twist, WORDS, Wants};

pub(super) fn what(start: Timestamp, wants: &Wants) -> What {
    match wants {
        Wants::Tick(ask) => What::Tick(tick_claim(start, ask)),
        Wants::Now => What::Now,
        Wants::Requested(id) => What::Requested(REQUESTS[*id].to_owned()),
        Wants::Lock => What::Lock,
        Wants::Once => What::Once,
        Wants::Leader => What::Leader,
        Wants::Slot(of) => What::Slot(*of),
    }
}

fn tick_claim(start: Timestamp, ask: &Ask) -> TickClaim {
    TickClaim {
        tick: Timestamp::from_micros(start.as_micros() + ask.tick * 1_000),
        delay: Duration::from_millis(ask.delay),
        grace: Duration::from_millis(ask.grace),
        overlap: if ask.queue { Overlap::Queue } else { Overlap::Skip },
        takeovers: ask.takeovers,
        missed: if ask.run_once { Missed::RunOnce } else { Missed::Skip },
        schedule: SCHEDULES[ask.schedule].into(),
        known_for: Duration::from_millis(ask.known_for),
    }
}

pub(super) fn ending(start: Timestamp, end: &End) -> Ending {
    let failed_try = |number| FailedTry { number, at: start, error: WORDS[1].repeat(2) };
    Ending {
        outcome: end.outcome,
        error: end.error.map(str::to_owned),
        failed_tries: (1..=end.failed_tries).map(failed_try).collect(),
        remember: end.remember,
        done_for: end.done_for.map(Duration::from_millis),
    }
}

pub(super) fn progress(done: u64) -> Progress {
    Progress { done, total: u64::MAX, status: WORDS[usize::from(done > 0)].to_owned() }
}

pub(super) fn twisted(lease: Lease, twist: Twist, start: Timestamp) -> Lease {
    match twist {
        Twist::None => lease,
        Twist::UnknownFence => Lease { fence: model::UNKNOWN_FENCE, ..lease },
        Twist::AFenceFromTheFuture => Lease { fence: lease.fence + 3_600_000_000, ..lease },
        Twist::OlderFence => Lease { fence: lease.fence - 1, ..lease },
        Twist::AShorterTtl => Lease { ttl: Duration::from_millis(20), until: lease.since, ..lease },
        Twist::AnEarlierUntil => Lease { until: lease.since, ..lease },
        Twist::ALaterUntil => Lease { until: lease.until.plus(Duration::from_secs(10)), ..lease },
        Twist::ATickFromTheFuture => Lease { tick: Some(start.plus(Duration::from_millis(60))), ..lease },
        Twist::ASinceFromTheFuture => Lease { since: lease.since.plus(Duration::from_secs(10)), ..lease },
    }
}
