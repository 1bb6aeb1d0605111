//! Run and skip records, and records that expire.

use std::sync::Arc;
use std::time::Duration;

use crate::Timestamp;
use crate::history::{FailedTry, Progress, RunOutcome, RunRecord, Skip, SkipHolder, SkipRecord, Trigger};
use crate::store::{Change, Gap, JobRecord, JobRecords, KeyState, Pause, SwapReply};

use super::super::Subject;
use super::super::test_key::{TEXTS, TestKey, fences, from, numbered, run, state};

fn skip(tick: i64) -> JobRecord {
    let [tick, at] = [tick, tick + 1].map(Timestamp::from_micros);
    JobRecord::Skip(SkipRecord::new(tick, Skip::Held, "a", at))
}

fn ticks(records: &JobRecords) -> Vec<i64> {
    records.skips.iter().map(|skip| skip.tick.as_micros()).collect()
}

pub(super) async fn records_are_kept_newest_first(subject: &Subject) {
    let key = TestKey::of(subject);
    for number in 1..=4 {
        key.write(Change { records: vec![run(number)], ..numbered(1) }).await;
    }
    // A crash that is found by a skip: both kinds in one swap, and two of a kind.
    key.write(Change { records: vec![run(5), skip(1), run(6), skip(2)], ..numbered(2) }).await;
    let records = key.records().await;
    assert_eq!((fences(&records), ticks(&records)), (vec![6, 5, 4, 3, 2, 1], vec![2, 1]));
}

pub(super) async fn newest_records_of_each_kind_are_kept(subject: &Subject) {
    let key = TestKey::of(subject);
    let append = async |keep, records: Vec<JobRecord>| {
        key.write(Change { records, keep, ..numbered(1) }).await;
        let records = key.records().await;
        (fences(&records), ticks(&records))
    };
    assert_eq!(append(3, vec![run(1), run(2), skip(1)]).await, (vec![2, 1], vec![1]));
    assert_eq!(append(3, vec![run(3), run(4)]).await, (vec![4, 3, 2], vec![1]));
    assert_eq!(append(3, vec![skip(2), skip(3), skip(4)]).await, (vec![4, 3, 2], vec![4, 3, 2]));
    assert_eq!(append(2, vec![run(5)]).await, (vec![5, 4], vec![4, 3, 2]));
    assert_eq!(append(100, vec![run(6)]).await, (vec![6, 5, 4], vec![4, 3, 2]));
    assert_eq!(append(1, vec![run(7), skip(5), run(8), run(9)]).await, (vec![9], vec![5]));
    assert_eq!(append(0, vec![run(10)]).await, (vec![], vec![5]));
}

pub(super) async fn swap_without_records_keeps_those_that_are_there(subject: &Subject) {
    let key = TestKey::of(subject);
    key.write(Change { records: vec![run(1), run(2), skip(1)], ..numbered(1) }).await;
    key.write(Change { keep: 0, ..numbered(2) }).await;
    key.write(Change { keep: 1, ..numbered(3) }).await;
    let records = key.records().await;
    assert_eq!((fences(&records), ticks(&records)), (vec![2, 1], vec![1]));
}

pub(super) async fn newest_records_of_several_keys_are_returned_in_their_order(subject: &Subject) {
    let keys: Vec<_> = (0..5).map(|number| TestKey::named(subject, &format!("key-{number}"))).collect();
    for (number, key) in (0..).zip(&keys).skip(1) {
        let runs = (0..number).map(|run_number| run(10 * number + run_number));
        key.write(Change { records: runs.chain([skip(number)]).collect(), ..numbered(1) }).await;
    }
    let names: Vec<_> = keys.iter().rev().map(|key| key.name.clone()).collect();
    for newest in [0, 1, 2, 100, usize::MAX] {
        let found = keys[0].store.records(&names, newest).await.expect("records");
        let mut expected = Vec::new();
        for key in keys.iter().rev() {
            expected.push(key.records().await.newest(newest));
        }
        assert_eq!(found, expected, "the newest {newest}");
    }
    assert_eq!(keys[0].store.records(&[], 1).await.expect("records"), []);
}

pub(super) async fn records_come_back_with_every_field(subject: &Subject) {
    let key = TestKey::of(subject);
    let (early, late) = (Timestamp::from_micros(i64::MIN), Timestamp::from_micros(i64::MAX));
    let long = "a long error ☃ ".repeat(2_000);
    for text in TEXTS.into_iter().chain([long.as_str()]) {
        let text = || text.to_owned();
        let run = RunRecord {
            tick: Some(early),
            server: text(),
            fence: i64::MAX,
            attempt: u32::MAX,
            started: early,
            ended: late,
            outcome: RunOutcome::NotStarted,
            error: Some(text()),
            failed_tries: vec![FailedTry { number: u32::MAX, at: late, error: text() }; 3],
            log: Some(text()),
            progress: Some(Progress { done: u64::MAX, total: u64::MAX, status: text() }),
            request: Some(text()),
            trigger: Trigger::Missed,
            by: Some(text()),
            stopped_by: Some(text()),
            app_version: Some(text()),
        };
        let pause = Pause {
            by: text().into(),
            reason: Some(text().into()),
            since: early,
            until: Some(late),
            all: true,
        };
        let skip = SkipRecord {
            tick: late,
            reason: Skip::Paused,
            server: text(),
            at: early,
            holder: Some(SkipHolder { server: Some(text()), since: Some(late), tick: Some(early) }),
            pause: Some(pause),
            missed: Some(Gap { after: early, before: late, schedule: Some(text().into()) }),
        };
        let records = vec![JobRecord::Run(run.clone()), JobRecord::Skip(skip.clone())];
        key.write(Change { records, ..numbered(1) }).await;
        let kept = key.records().await;
        assert_eq!((kept.runs.first(), kept.skips.first()), (Some(&run), Some(&skip)));
    }
}

/// What a manual lock leaves behind may vanish once it has expired, as a whole. Until then it stays.
pub(super) async fn expired_record_is_shown_or_gone(subject: &Subject) {
    let key = TestKey::of(subject);
    let expiring = |expires| {
        let state = KeyState { expires: Some(expires), ..KeyState::clone(&state(1)) };
        Change { state: Some(Arc::new(state)), ..numbered(1) }
    };
    let expires = key.look().await.now + Duration::from_millis(200);
    let swapped = key.write(expiring(expires)).await;
    let look = key.look().await;
    if look.now < expires {
        assert_eq!(look.version, Some(swapped.version), "it has not expired");
    }
    key.wait_until_after(expires).await;
    let look = key.look().await;
    if look.version.is_some() {
        assert_eq!((look.version, look.state.expires), (Some(swapped.version), Some(expires)));
    } else {
        assert_eq!(look.fence, 0, "{look:?}");
    }
    // In the past from the beginning: as the release of a lease whose store was stopped for long.
    for change in [expiring(look.now - Duration::from_secs(1)), numbered(2)] {
        // The store may remove what has expired between the look and the swap, once.
        let first = key.swap(&from(&key.look().await, change.clone())).await;
        if let SwapReply::Changed(look) = first {
            key.applied(&from(&look, change)).await;
        }
    }
    assert_eq!(key.look().await.state, state(2));
}

/// A job may take over the key of a manual lock.
pub(super) async fn record_of_a_job_does_not_expire(subject: &Subject) {
    let key = TestKey::of(subject);
    let expires = key.look().await.now + Duration::from_millis(500);
    let expiring = KeyState { expires: Some(expires), ..KeyState::clone(&state(1)) };
    key.write(Change { state: Some(Arc::new(expiring)), records: vec![run(1)], ..numbered(1) }).await;
    let swapped = key.write(numbered(2)).await;
    let kept = fences(&key.records().await);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(key.look().await.version, Some(swapped.version));
    assert_eq!(fences(&key.records().await), kept);
}
