//! When each job is due.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::job::Job;
use crate::server::{NeverSilently, Server};
use crate::store::TickClaim;
use crate::tick::{self, TickOutcome};
use crate::{Schedule, Timestamp, report};

/// Fires one job's ticks until the server stops. Runs go on beside it.
pub(crate) async fn schedule(server: Arc<Server>, job: Arc<Job>) {
    let _never_silently = NeverSilently(server.clone());
    let (policy, Some(schedule)) = (&job.policy, &job.policy.schedule) else { return };
    let not_due = Arc::new(Notify::new());
    let mut fired = server.time.now();
    let mut planned = schedule.next_after(fired);
    while let Some(first) = planned {
        let fire = tokio::select! {
            on_time = server.time.sleep_until(first.plus(policy.delay_of(first))) => on_time,
            () = not_due.notified() => false,
        };
        let now = server.time.now();
        if !fire {
            // The clock was set: plan anew, with every tick that may still start. The store knows which of
            // them were decided.
            planned = schedule.next_after(now.minus(policy.grace_of(first)).min(first.minus(JUST_BEFORE)));
            continue;
        }
        let (tick, next) = newest_due(schedule, first, now);
        if tick > first {
            report::missed(&server, &job, schedule, fired.max(first.minus(JUST_BEFORE)), tick);
        }
        fired = fired.max(tick);
        planned = next;
        let ask = TickClaim {
            tick,
            delay: policy.delay_of(tick),
            grace: policy.grace_before(tick, next),
            overlap: policy.overlap,
            takeovers: policy.allowed_takeovers(),
        };
        fire_tick(&server, &job, &not_due, ask).await;
    }
    tracing::warn!(target: "jobs", key = policy.key, "[{}] its schedule has no further tick", policy.key);
}

/// Begins a tick at once, on this very poll: when thousands are due together, none waits until the others have
/// been handed to tasks of their own. What cannot end at once goes on in one.
async fn fire_tick(server: &Arc<Server>, job: &Arc<Job>, not_due: &Arc<Notify>, ask: TickClaim) {
    let (server, job, not_due, tick) = (server.clone(), job.clone(), not_due.clone(), ask.tick);
    let ticks = server.ticks.clone();
    let mut running = Box::pin(ticks.track_future(async move {
        let _never_silently = NeverSilently(server.clone());
        let outcome = tick::run(&server, &job, ask).await;
        if matches!(outcome, TickOutcome::NotDue) {
            not_due.notify_one();
        }
        report::tick(&server, &job, tick, &outcome);
    }));
    let begun = std::future::poll_fn(|context| Poll::Ready(running.as_mut().poll(context))).await;
    if begun.is_pending() {
        tokio::spawn(running);
    }
}

const JUST_BEFORE: Duration = Duration::from_micros(1);

/// The tick to claim, and the one after it. After a gap (a suspended machine, a stalled process) only the
/// newest due tick is worth claiming.
fn newest_due(schedule: &Schedule, first: Timestamp, now: Timestamp) -> (Timestamp, Option<Timestamp>) {
    let next = schedule.next_after(first);
    if next.is_none_or(|next| next > now) {
        return (first, next);
    }
    let newest = schedule.newest_at(now).map_or(first, |newest| newest.max(first));
    (newest, schedule.next_after(newest))
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
