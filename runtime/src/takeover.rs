//! Waiting for a run on another server to end, and finishing its tick if it does not.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::claim::{Ask, Purpose};
use crate::job::Job;
use crate::server::Server;
use crate::store::Unfinished;
use crate::tick;
use crate::waiting::slack;

/// Asks for the tick when the lease that it is under should have ended: it was extended, released, or is free to
/// take. At most one question per ttl, and one of these per job and server.
pub(crate) async fn wait(server: &Arc<Server>, job: &Arc<Job>, unfinished: Unfinished) {
    let mut next = job.here.watch.begin(unfinished);
    while let Some(Unfinished { tick, remaining }) = next {
        let ttl = job.policy.ttl;
        tokio::select! {
            () = tokio::time::sleep(remaining.unwrap_or(ttl).min(ttl) + slack(ttl)) => {}
            () = server.stop.cancelled() => return,
        }
        job.here.watch.asks();
        let ask = Ask { tick, grace: Duration::ZERO, purpose: Purpose::TakeOver };
        let still = tick::run(server, job, ask).await.1;
        if server.stop.is_cancelled() {
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
    AndThen(Unfinished),
}

impl Watch {
    /// Returns the tick to whoever is the only one to wait; else it is left to that one.
    fn begin(&self, unfinished: Unfinished) -> Option<Unfinished> {
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
    fn end(&self) -> Option<Unfinished> {
        self.change(|watching| match watching {
            Watching::AndThen(unfinished) => (Watching::Somebody, Some(unfinished)),
            _ => (Watching::Nobody, None),
        })
    }

    fn change(&self, change: impl FnOnce(Watching) -> (Watching, Option<Unfinished>)) -> Option<Unfinished> {
        let mut watching = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (changed, unfinished) = change(std::mem::take(&mut *watching));
        *watching = changed;
        unfinished
    }
}
