//! Waiting for a run on another server to end, and finishing its tick if it does not.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::claim::{Ask, Purpose};
use crate::job::Job;
use crate::server::Server;
use crate::store::Unfinished;
use crate::tick;
use crate::waiting::slack;

/// Asks for the tick when the lease that it is under should have ended: it was extended, released, or is free to
/// take. At most one question per ttl, and one of these per job and server.
pub(crate) async fn wait(server: &Arc<Server>, job: &Arc<Job>, mut unfinished: Unfinished) {
    if job.here.watched.swap(true, Ordering::SeqCst) {
        return;
    }
    let _watched = Watched(job);
    loop {
        let ttl = job.policy.ttl;
        let wait = unfinished.remaining.unwrap_or(ttl).min(ttl) + slack(ttl);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = server.stop.cancelled() => return,
        }
        let ask = Ask { tick: unfinished.tick, grace: Duration::ZERO, purpose: Purpose::TakeOver };
        match tick::run(server, job, ask).await.1 {
            Some(still) if !server.stop.is_cancelled() => unfinished = still,
            _ => return,
        }
    }
}

struct Watched<'a>(&'a Job);

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.here.watched.store(false, Ordering::SeqCst);
    }
}
