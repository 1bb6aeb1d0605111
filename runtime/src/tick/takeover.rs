//! Waiting for a run on another server to end, and finishing its tick if it does not.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use singleton_jobs_policy::timing::slack;

use super::claim::{Ask, Purpose};
use super::run_tick;
use crate::job::Job;
use crate::server::Server;
use crate::store::UnfinishedTick;

/// Asks for the tick when the lease that it is under should have ended: it was extended, released, or is free to
/// take. At most one question per ttl, and one of these per job and server.
pub(crate) async fn wait(server: &Arc<Server>, job: &Arc<Job>, unfinished: UnfinishedTick) {
    let mut next = job.here.watch.begin(unfinished);
    while let Some(UnfinishedTick { tick, remaining }) = next {
        let ttl = job.policy.ttl;
        tokio::select! {
            () = tokio::time::sleep(remaining.unwrap_or(ttl).min(ttl) + slack(ttl)) => {}
            () = server.stop.raised() => return,
        }
        job.here.watch.asks();
        tokio::select! {
            () = server.application_answers() => {}
            () = server.stop.raised() => return,
        }
        let ask = Ask { tick, previous: None, grace: Duration::ZERO, purpose: Purpose::TakeOver };
        let still = run_tick(server, job, ask).await.1;
        if server.stop.is_raised() {
            return;
        }
        next = still.or_else(|| job.here.watch.end());
    }
}

/// Whether somebody on this server waits for a job's unfinished tick.
#[derive(Default)]
pub(crate) struct Watch(Mutex<Watching>);

#[derive(Default)]
enum Watching {
    #[default]
    Nobody,
    Somebody,
    /// Somebody, who was told meanwhile of another tick.
    AndThen(UnfinishedTick),
}

impl Watch {
    /// Returns the tick to whoever is the only one to wait; else it is left to that one.
    fn begin(&self, unfinished: UnfinishedTick) -> Option<UnfinishedTick> {
        self.change(|watching| match watching {
            Watching::Nobody => (Watching::Somebody, Some(unfinished)),
            _ => (Watching::AndThen(unfinished), None),
        })
    }

    /// The answer to a question is newer than all that was told before.
    fn asks(&self) {
        self.change(|_| (Watching::Somebody, None));
    }

    /// Nothing is left to wait for, but what was told meanwhile.
    fn end(&self) -> Option<UnfinishedTick> {
        self.change(|watching| match watching {
            Watching::AndThen(unfinished) => (Watching::Somebody, Some(unfinished)),
            _ => (Watching::Nobody, None),
        })
    }

    fn change(
        &self,
        change: impl FnOnce(Watching) -> (Watching, Option<UnfinishedTick>),
    ) -> Option<UnfinishedTick> {
        let mut watching = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (changed, unfinished) = change(std::mem::take(&mut *watching));
        *watching = changed;
        unfinished
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    fn unfinished(tick: i64) -> UnfinishedTick {
        UnfinishedTick { tick: Timestamp::from_micros(tick), remaining: None }
    }

    #[test]
    fn only_one_waits_at_a_time() {
        let watch = Watch::default();
        assert_eq!(watch.begin(unfinished(1)), Some(unfinished(1)));
        assert_eq!(watch.begin(unfinished(2)), None);
        assert_eq!(watch.begin(unfinished(3)), None);
    }

    #[test]
    fn when_it_has_ended_another_can_begin() {
        let watch = Watch::default();
        watch.begin(unfinished(1));
        watch.asks();
        assert_eq!(watch.end(), None);
        assert_eq!(watch.begin(unfinished(2)), Some(unfinished(2)));
    }

    #[test]
    fn what_was_told_while_it_asked_comes_next_and_the_newest_only() {
        let watch = Watch::default();
        watch.begin(unfinished(1));
        watch.asks();
        watch.begin(unfinished(2));
        watch.begin(unfinished(3));
        assert_eq!(watch.end(), Some(unfinished(3)));
        assert_eq!(watch.begin(unfinished(4)), None, "it goes on to wait");
        assert_eq!(watch.end(), Some(unfinished(4)));
        assert_eq!(watch.end(), None);
    }

    #[test]
    fn what_was_told_before_it_asked_is_answered_with_it() {
        let watch = Watch::default();
        watch.begin(unfinished(1));
        watch.begin(unfinished(2));
        watch.asks();
        assert_eq!(watch.end(), None);
    }
}
