//! All decisions on a record, whatever it holds: no panic, and no swap that lowers the fence.

use std::sync::Arc;
use std::time::Duration;

use jobs::Timestamp;
use jobs::history::{RunOutcome, RunRecord};
use jobs::schedule::{Missed, Overlap};
use jobs::store::{
    Change, Claim, ClaimPurpose, Ending, FenceChange, JobRecords, Lease, Record, Swap, SwapReply, TickClaim,
};
use jobs::store::{PauseOrder, RunDetails, decide};

/// An ordinary instant of the store's clock.
const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);
const MINUTE: Duration = Duration::from_secs(60);

fn claims(now: Timestamp, tick: Timestamp) -> Vec<Claim> {
    let ask = |overlap, missed| TickClaim {
        tick,
        previous: Some(tick - MINUTE),
        delay: Duration::from_millis(5),
        grace: MINUTE,
        only_takes_over: false,
        overlap,
        takeovers: u32::MAX,
        missed,
        schedule: "* * * * * UTC".into(),
        known_for: now.since(tick) + MINUTE,
    };
    let purposes = [
        ClaimPurpose::Tick(ask(Overlap::Skip, Missed::Skip)),
        ClaimPurpose::Tick(ask(Overlap::Queue, Missed::RunOnce)),
        ClaimPurpose::Tick(TickClaim { only_takes_over: true, ..ask(Overlap::Queue, Missed::Skip) }),
        ClaimPurpose::Now,
        ClaimPurpose::Requested("request-1".into()),
        ClaimPurpose::Lock,
        ClaimPurpose::Once,
        ClaimPurpose::Leader,
        ClaimPurpose::Slot(0),
        ClaimPurpose::Slot(3),
    ];
    let claim = |what| Claim {
        token: "token".into(),
        server: "host-9".into(),
        ttl: MINUTE,
        what,
        remember: 3,
        details: RunDetails::default(),
    };
    purposes.map(claim).into()
}

/// Makes every decision on the record, and applies each change to it.
pub(super) fn check(record: &Record) -> Result<(), String> {
    let state = &record.state;
    let marked = state.mark.as_ref().map_or_else(Timestamp::default, |mark| mark.tick);
    let until = state.claimant.as_ref().map_or_else(Timestamp::default, |lease| lease.until);
    let instants = [
        NOW,
        Timestamp::from_micros(0),
        Timestamp::from_micros(i64::MAX),
        Timestamp::from_micros(i64::MIN),
        marked + MINUTE,
        until,
        until - Duration::from_micros(1),
    ];
    for now in instants {
        check_at(record, now)?;
    }
    Ok(())
}

fn check_at(record: &Record, now: Timestamp) -> Result<(), String> {
    let look = Record::look(Some(record), None, now);
    let state = &record.state;
    let started = state.started.map_or(now, |started| started.tick);
    for claim in [claims(now, now), claims(now, now - MINUTE), claims(now, started)].concat() {
        apply(record, now, decide::claim(&look, &claim).change)?;
    }
    let held = state.claimant.iter().chain(&state.slots);
    let own = held.flat_map(|lease| [lease.clone(), Lease { fence: record.fence, ..lease.clone() }]);
    for lease in own {
        apply(record, now, decide::extend(&look, &lease).change)?;
        for outcome in [RunOutcome::Succeeded, RunOutcome::Crashed, RunOutcome::NotStarted] {
            for done_for in [None, Some(MINUTE)] {
                let end = Ending { done_for, ..Ending::of(outcome, 3) };
                apply(record, now, decide::release(&look, &lease, &end).change)?;
            }
        }
        let again = Claim {
            token: lease.token.clone(),
            server: lease.server.clone(),
            ttl: lease.ttl,
            what: ClaimPurpose::Now,
            remember: 3,
            details: RunDetails { pause_after: 1, ..RunDetails::default() },
        };
        apply(record, now, decide::claim(&look, &again).change)?;
    }
    let by = Arc::<str>::from("host-9");
    for all in [true, false] {
        let order = PauseOrder { by: by.clone(), reason: None, lasts: Some(Duration::MAX), all };
        apply(record, now, decide::pause(&look, &order, 3).change)?;
        apply(record, now, decide::resume(&look, &by, all, 3).change)?;
        apply(record, now, decide::pause_fleet(&look, &order).change)?;
    }
    apply(record, now, decide::resume_fleet(&look).change)?;
    apply(record, now, decide::reset(&look).change)?;
    apply(record, now, decide::forget(&look, MINUTE).change)?;
    apply(record, now, decide::request(&look, "id", "host-9", Duration::MAX).change)?;
    apply(record, now, decide::break_lock(&look, "key", &look, &by, 3).change)?;
    apply(record, now, decide::cancel(&look, &look, &by).change)?;
    let history = decide::history(&look, JobRecords::default());
    let _ = (history.stats.mean(), history.stats.longest(), decide::held(&look, "key"));
    let _ = history.runs.iter().map(RunRecord::duration).max();
    Ok(())
}

fn apply(record: &Record, now: Timestamp, change: Option<Change>) -> Result<(), String> {
    let Some(change) = change else { return Ok(()) };
    let is_new_lease = change.fence == FenceChange::Next;
    let swap = Swap { expected: Some(record.version), expected_lock: None, nonce: 1, change };
    let mut after = Some(record.clone());
    let reply = Record::swap(&mut after, None, now, &swap);
    let SwapReply::Swapped(swapped) = reply else { return Ok(()) };
    // There is no number after the last one.
    let grows = swapped.fence > record.fence || record.fence == i64::MAX;
    if swapped.fence < record.fence || (is_new_lease && !grows) {
        return Err(format!("the fence {} becomes {} by {swap:?}", record.fence, swapped.fence));
    }
    // Once is enough, and it takes most of the time.
    if let Some(after) = after.filter(|_| now == NOW)
        && Record::from_text(&after.to_text()).as_ref() != Ok(&after)
    {
        return Err(format!("what is written cannot be read: {after:?}"));
    }
    Ok(())
}
