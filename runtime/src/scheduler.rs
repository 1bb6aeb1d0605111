//! When each job is due.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::job::Job;
use crate::server::{NeverSilently, Server};
use crate::tick::{self, TickOutcome};
use crate::{Schedule, Timestamp, report};

/// Fires one job's ticks until the server stops. Runs go on beside it.
pub(crate) async fn schedule(server: Arc<Server>, job: Arc<Job>) {
    let _never_silently = NeverSilently(server.clone());
    let Some(schedule) = &job.policy.schedule else { return };
    let not_due = Arc::new(Notify::new());
    let mut last = server.time.now();
    while let Some(next) = schedule.next_after(last) {
        let due = next.plus(job.policy.delay_of(next));
        let fire = tokio::select! {
            on_time = server.time.sleep_until(due) => on_time,
            () = not_due.notified() => false,
        };
        let now = server.time.now();
        if !fire {
            // The clock was set: plan anew, with every tick that may still start. The store knows which of
            // them were decided.
            last = last.min(now.minus(job.policy.grace_of(next)));
            continue;
        }
        let tick = newest_due(schedule, next, now);
        report::missed(&server, &job, next, tick);
        last = tick;
        let (server, job, not_due) = (server.clone(), job.clone(), not_due.clone());
        server.clone().ticks.spawn(async move {
            let _never_silently = NeverSilently(server.clone());
            let outcome = tick::run(&server, &job, tick).await;
            if matches!(outcome, TickOutcome::NotDue) {
                not_due.notify_one();
            }
            report::tick(&server, &job, tick, &outcome);
        });
    }
    tracing::warn!(target: "jobs", key = job.policy.key, "[{}] its schedule has no further tick", job.policy.key);
}

/// After a gap (a suspended machine, a stalled process) only the newest tick is worth claiming.
fn newest_due(schedule: &Schedule, next: Timestamp, now: Timestamp) -> Timestamp {
    match schedule.next_after(next) {
        Some(following) if following <= now => {
            schedule.newest_at(now).map_or(next, |newest| newest.max(next))
        }
        _ => next,
    }
}

/// How often the machine's two clocks are compared, and the store is asked for its time.
const COMPARE: Duration = Duration::from_secs(5);
const ASK: Duration = Duration::from_secs(60);
const SUSPICIOUS: Duration = Duration::from_millis(250);

/// Notices that the machine was suspended or its clock was set, and asks the store what time it is.
pub(crate) async fn watch_clock(server: Arc<Server>) {
    let _never_silently = NeverSilently(server.clone());
    let wall = server.time.wall().clone();
    let mut seen = (Instant::now(), wall.now());
    let mut asked = seen.0;
    loop {
        tokio::time::sleep(COMPARE).await;
        let now = (Instant::now(), wall.now());
        let steady = now.0.duration_since(seen.0);
        let shown = now.1.since(seen.1);
        let jumped = shown.abs_diff(steady) > SUSPICIOUS || now.1 < seen.1;
        seen = now;
        if jumped || asked.elapsed() >= ASK {
            asked = now.0;
            // A failure is noted in the server's health; the next round asks again.
            let answer = server.ask("ping", Duration::from_secs(2), server.store.ping()).await;
            if jumped && answer.is_ok() {
                server.time.wake_sleepers();
            }
        }
    }
}
