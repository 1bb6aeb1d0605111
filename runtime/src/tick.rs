//! The path of a tick on one server: claim → run under a lease → release with a record.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::Timestamp;
use crate::claim::{self, Claimed};
use crate::execute;
use crate::job::Job;
use crate::run::{self, Run};
use crate::server::Server;
use crate::store::{Ending, Holder, StoreError, Taken, TickClaim};

/// How a tick ended on this server.
pub(crate) enum TickOutcome {
    /// It ran here.
    Ran { fence: i64, ending: Ending },
    /// It did not run here, and that is no error.
    Skipped(Skipped),
    /// The scheduler's clock was fast; it will come back.
    NotDue,
    /// The store could not be asked while the tick could still start.
    Unavailable(StoreError),
}

/// Why a tick did not run here.
pub(crate) enum Skipped {
    Held(Holder),
    Taken(Taken),
    Superseded(Timestamp),
    /// It lies before the job was known.
    Unregistered,
    Ahead(Timestamp),
    Paused,
    Late(std::time::Duration),
    /// Every place among this server's runs was taken until the tick's grace was over.
    Busy,
    /// It was won, but the answer came too late to start it safely.
    WonTooLate,
    /// The server was asked to stop.
    Stopping,
}

/// One tick of one job on this server.
pub(crate) async fn run(server: &Arc<Server>, job: &Arc<Job>, ask: TickClaim) -> TickOutcome {
    let tick = ask.tick;
    let (mut lease, slot) = match claim::claim_tick(server, job, ask).await {
        Claimed::Won(lease, slot) => (lease, slot),
        Claimed::No(outcome) => return outcome,
    };

    let fence = lease.fence();
    let _running = server.running.enter(job);
    let run = Run::new(run::Inner {
        key: job.policy.key.clone(),
        tick: Some(tick),
        fence,
        attempt: lease.attempt(),
        server: server.id.clone(),
        cancelled: CancellationToken::new(),
        stopping: server.stop.clone(),
    });
    let proof = lease.proof();
    let task = execute::start(server, job, &run, &proof);
    // The job runs. When thousands are due together, watching over it comes after starting the others.
    tokio::task::yield_now().await;

    let ended = Notify::new();
    let (ending, ()) = tokio::join!(
        async {
            let ending = execute::watch(server, job, &run, &proof, task).await;
            ended.notify_one();
            ending
        },
        lease.keep_alive(server, &ended),
    );
    drop(slot);
    // The job's future is gone and keep-alive has ended: now, and not before, the lease can go.
    lease.release(server, &ending).await;
    TickOutcome::Ran { fence, ending }
}
