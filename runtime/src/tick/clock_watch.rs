//! Notices that the machine was suspended or its clock was set.

use std::sync::Arc;
use std::time::Duration;

use crate::server::{FailOnPanic, Server};

/// How often the machine's two clocks are compared.
const COMPARE: Duration = Duration::from_secs(5);
/// The difference between the clocks that counts as a suspend or a step.
const SUSPICIOUS: Duration = Duration::from_millis(250);

/// Compares the clock that stands still while the machine is suspended with the one that can be set. When
/// they disagree, asks the store for its time. (Otherwise every heartbeat does.)
pub(crate) async fn watch_clock(server: Arc<Server>) {
    let _fail_on_panic = FailOnPanic(server.clone());
    let mut seen = server.time.read_clocks();
    let mut jumped = false;
    loop {
        tokio::time::sleep(COMPARE).await;
        if !server.jobs.is_empty() {
            server.app.send_probe();
        }
        let now = server.time.read_clocks();
        let (steady, shown) = (now.steady.duration_since(seen.steady), now.wall.since(seen.wall));
        jumped |= shown.abs_diff(steady) > SUSPICIOUS || now.wall < seen.wall;
        seen = now;
        // A failure is recorded in the server's health, and the next round asks again.
        if jumped && server.requests(Duration::from_secs(2)).ping().await.is_ok() {
            jumped = false;
            server.time.wake_sleepers();
        }
    }
}
