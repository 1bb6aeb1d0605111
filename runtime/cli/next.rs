//! `jobsctl next`: the next ticks of a schedule.

use jobs::schedule::Schedule;
use jobs::{Jobs, Timestamp};
use serde_json::json;

use crate::args::{Next, Options};
use crate::failure::{Answer, Failure};
use crate::output::{FAINT, print_json};
use crate::time::{absolute, relative};

pub(crate) fn of_schedule(options: &Options, next: &Next) -> Result<Answer, Failure> {
    let zone = options.tz.iana_name().unwrap_or("UTC");
    let zone = (!is_interval(&next.schedule)).then_some(zone);
    let schedule = Schedule::parse(&next.schedule, zone)
        .map_err(|error| Failure::Usage(format!("{error}; for the key of a job pass --job")))?;
    print(options, next, &schedule, Timestamp::now());
    Ok(Answer::Good)
}

pub(crate) async fn of_job(options: &Options, jobs: &Jobs, next: &Next) -> Result<Answer, Failure> {
    let ticks = jobs.ticks(&next.schedule).await?;
    let Some(schedule) = ticks.schedule() else {
        return Err(Failure::NotFound(format!(
            "\"{}\" has no schedule; it runs only manually",
            next.schedule
        )));
    };
    print(options, next, schedule, ticks.now());
    Ok(Answer::Good)
}

/// An interval has no time zone.
fn is_interval(text: &str) -> bool {
    Schedule::parse(text, None).is_ok() && Schedule::parse(text, Some("UTC")).is_err()
}

fn print(options: &Options, next: &Next, schedule: &Schedule, now: Timestamp) {
    let ticks = std::iter::successors(schedule.next_after(now), |tick| schedule.next_after(*tick));
    let ticks: Vec<_> = ticks.take(next.number).collect();
    if options.json {
        let shown =
            ticks.iter().map(|tick| json!({ "tick": tick.to_string(), "local": schedule.local_time(*tick) }));
        return print_json(&json!({
            "format": 1,
            "schedule": schedule.to_string(),
            "in_words": schedule.in_words(),
            "ticks": shown.collect::<Vec<_>>(),
        }));
    }
    anstream::println!("{schedule}: {}", schedule.in_words());
    for tick in ticks {
        let local = schedule.local_time(tick).unwrap_or_default();
        let (at, distance) = (absolute(tick, &options.tz), relative(tick, now));
        anstream::println!("{at}  {FAINT}{distance:14} {local}{FAINT:#}");
    }
}
