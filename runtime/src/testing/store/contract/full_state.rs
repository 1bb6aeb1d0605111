//! A state that a store must keep unchanged.

use std::sync::Arc;
use std::time::Duration;

use crate::Timestamp;
use crate::history::{Progress, Skip, Stats};
use crate::store::{
    Action, ActionKind, DoneMark, FORMAT, FleetState, Gap, KeyState, Lease, LeaseKind, Pause,
    RegisteredSchedule, RequestAnswer, RunDetails, RunRequest, StartedTick, TickMark, Trigger,
};

/// A state in which nothing is empty, with numbers at the ends of their ranges.
pub(super) fn full_state(text: &str) -> KeyState {
    let (early, late) = (Timestamp::from_micros(i64::MIN), Timestamp::from_micros(i64::MAX));
    let text = || text.to_owned();
    let lease = |fence| Lease {
        token: text().into(),
        server: text().into(),
        kind: LeaseKind::Slot { of: u32::MAX },
        tick: Some(late),
        attempt: u32::MAX,
        takeovers: u32::MAX,
        request: Some(text().into()),
        trigger: Trigger::Takeover,
        details: RunDetails {
            by: Some(text().into()),
            app_version: Some(text().into()),
            pause_after: u32::MAX,
        },
        fence,
        since: early,
        until: late,
        ttl: Duration::from_micros(u64::MAX),
        progress: Some(Progress { done: u64::MAX, total: u64::MAX - 1, status: text() }),
        reported: Some(early),
    };
    let pause =
        Pause { by: text().into(), reason: Some(text().into()), since: early, until: Some(late), all: true };
    let action = Action {
        at: late,
        by: text().into(),
        what: ActionKind::Unlock,
        key: Some(text().into()),
        note: Some(text().into()),
    };
    KeyState {
        format: FORMAT,
        claimant: Some(lease(i64::MIN)),
        released: true,
        broken_by: Some(text().into()),
        cancelled_by: Some(text().into()),
        started: Some(StartedTick { tick: early, attempt: u32::MAX, finished: true, takeovers: u32::MAX }),
        mark: Some(TickMark { tick: late, skip: Some(Skip::Paused), server: text().into(), at: early }),
        pause: Some(pause.clone()),
        registered: Some(RegisteredSchedule {
            schedule: text().into(),
            at: early,
            server: text().into(),
            begun: early,
            used: late,
            runs_missed_since: Some(late),
        }),
        request: Some(RunRequest {
            id: text(),
            by: text(),
            until: late,
            answer: Some(RequestAnswer::Held { server: Some(text()) }),
        }),
        missed: vec![Gap { after: early, before: late, schedule: Some(text().into()) }; 16],
        reset_fence: Some(i64::MIN),
        stats: Stats {
            runs: u64::MAX,
            failures: u64::MAX - 1,
            successes: u64::MAX - 2,
            total_micros: u64::MAX - 3,
            longest_micros: u64::MAX - 4,
            last_success: Some(late),
            failures_in_row: u32::MAX,
        },
        done: Some(DoneMark { at: early, until: late }),
        broken_until: Some(late),
        claimable_until: Some(late),
        slots: vec![lease(i64::MAX), lease(0)],
        slots_since: early,
        fleet: Some(Arc::new(FleetState { pause: Some(pause), actions: vec![action; 3] })),
        expires: None,
    }
}
