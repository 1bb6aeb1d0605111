//! Arbitrary schedules: never a panic, never an endless search, and ticks that grow.

use std::cell::RefCell;
use std::time::Duration;

use fuzz::{Source, Target, Verdict};
use singleton_jobs_policy::{Policy, Schedule, Settings, Timestamp};

const TARGET: Target<'_> = Target {
    corpus: "schedules",
    words: "
            | * / - , + L W LW # ? MON sun JAN dec 7L 15W 5#5 @daily @ 10m 5s 1ns 1y 1M 0 00 007 60
            24 32 13 8 1900 2299 UTC Europe/Berlin Africa/Monrovia America/Scoresbysund Etc/Unknown
            Factory ../x +02:00
        ",
    cases: 1_200,
    kinds: &["accepted", "refused"],
};

/// The functions that compute ticks, so that a wrong one can stand in for one of them.
#[derive(Clone, Copy)]
struct Ticks {
    next_after: fn(&Schedule, Timestamp) -> Option<Timestamp>,
    newest_at: fn(&Schedule, Timestamp) -> Option<Timestamp>,
}

const OURS: Ticks = Ticks { next_after: Schedule::next_after, newest_at: Schedule::newest_at };

/// An instant near a change of the clock, at the ends of the calendar or of the type, or anywhere.
fn instant(source: &mut Source) -> Timestamp {
    let second = 1_000_000;
    let notable = [
        0,
        1_711_846_800 * second, // A spring gap and an autumn fold in Europe,
        1_729_990_800 * second,
        1_710_054_000 * second, // and in New York.
        1_730_613_600 * second,
        -2_208_988_800 * second,   // 1900
        10_413_792_000 * second,   // 2300
        253_402_300_799 * second,  // 9999
        -377_705_023_201 * second, // -9999
        i64::MAX,
        i64::MIN,
    ];
    let nearby = i64::try_from(source.below(7_200_000_000)).unwrap_or_default() - 3_600_000_000;
    Timestamp::from_micros(match source.below(4) {
        0 => source.number(),
        1 => i64::try_from(source.below(2_600_000_000_000_000)).unwrap_or_default(),
        2 => *source.pick(&notable),
        _ => source.pick(&notable).saturating_add(nearby),
    })
}

/// Checks the ticks of a schedule around an instant.
fn check_ticks(schedule: &Schedule, at: Timestamp, ticks: Ticks) -> Result<(), String> {
    let next = (ticks.next_after)(schedule, at);
    if next.is_some_and(|next| next <= at) {
        return Err(format!("{schedule}: the tick {next:?} is not after {at}"));
    }
    let later = at + Duration::from_secs(3600);
    let after_later = (ticks.next_after)(schedule, later);
    if let (Some(next), Some(after_later)) = (next, after_later)
        && (after_later < next || next > later && after_later != next)
    {
        return Err(format!("{schedule}: after {at} comes {next}, and after {later} comes {after_later}"));
    }
    let newest = (ticks.newest_at)(schedule, at);
    if newest.is_some_and(|newest| newest > at) {
        return Err(format!("{schedule}: the newest tick at {at} is {newest:?}"));
    }
    // Nothing lies between the newest tick and the next one.
    if let (Some(newest), Some(next)) = (newest, next)
        && (ticks.next_after)(schedule, newest) != Some(next)
    {
        return Err(format!("{schedule}: {next} does not follow {newest}, although {at} lies between them"));
    }
    Ok(())
}

fn check_policy(policy: &Policy, at: Timestamp) -> Result<(), String> {
    let (delay, grace) = (policy.delay_of(at), policy.grace_of(at));
    if policy.jitter.is_some_and(|jitter| delay >= jitter) {
        return Err(format!("the delay {delay:?} is not below the jitter {:?}", policy.jitter));
    }
    if grace.is_zero() && policy.grace.is_some() {
        return Err("the grace is zero".to_owned());
    }
    Ok(())
}

fn check(case: &[u8], source: &RefCell<Source>, ticks: Ticks) -> Verdict {
    let case = String::from_utf8_lossy(case);
    let mut fields = case.split('|').map(|field| Some(field).filter(|field| !field.is_empty()));
    let mut next = || fields.next().flatten();
    let settings = Settings {
        key: "job",
        every: Some(next().unwrap_or_default()),
        tz: next(),
        jitter: next(),
        grace: next(),
        ttl: next(),
        timeout: next(),
        ..Settings::default()
    };
    let policy = match settings.policy() {
        Ok(policy) => policy,
        Err(problems) if problems.is_empty() => return Err("refused without a reason".to_owned()),
        Err(_) => return Ok("refused"),
    };
    let Some(schedule) = &policy.schedule else { return Err("the schedule is lost".to_owned()) };
    let again = Schedule::from_text(schedule.as_str());
    let Some(again) = again else { return Err(format!("{schedule} does not read its own text")) };
    for _ in 0..6 {
        let at = instant(&mut source.borrow_mut());
        check_ticks(schedule, at, ticks)?;
        check_policy(&policy, at)?;
        let _ = schedule.local_time(at);
        if schedule.next_after(at) != again.next_after(at) {
            return Err(format!("{schedule} is not the schedule of its own text"));
        }
    }
    Ok("accepted")
}

#[test]
fn schedule_never_panics_and_its_ticks_grow() {
    let source = RefCell::new(Source::new(1));
    TARGET.run(|case| check(case, &source, OURS));
}

fn finds(mistake: &str, ticks: Ticks) {
    let source = RefCell::new(Source::new(1));
    TARGET.finds(mistake, |case| check(case, &source, ticks));
}

#[test]
fn tick_that_repeats_is_found() {
    let inclusive: fn(&Schedule, Timestamp) -> Option<Timestamp> =
        |schedule, at| schedule.next_after(at - Duration::from_micros(1));
    finds("a tick that is not after the instant", Ticks { next_after: inclusive, ..OURS });
}

#[test]
fn tick_that_is_left_out_is_found() {
    let skips: fn(&Schedule, Timestamp) -> Option<Timestamp> = |schedule, at| {
        let next = schedule.next_after(at)?;
        if next.as_micros() % 7 == 0 { schedule.next_after(next) } else { Some(next) }
    };
    finds("a tick that is left out", Ticks { next_after: skips, ..OURS });
}
