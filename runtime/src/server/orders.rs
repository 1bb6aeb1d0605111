//! Operators' actions that concern this server: it learns of them at once from a store that notifies, and otherwise with the
//! next heartbeat or extension.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use super::Server;
use super::operate::{ASK_WITHIN, manual_run};
use crate::Timestamp;
use crate::fleet::ActionKind;
use crate::store::{FLEET, KeySubscription, StoreError};

/// Actions in quick succession are read together.
const GATHER: Duration = Duration::from_millis(20);

/// The subscription to operators' actions.
#[derive(Default)]
pub(crate) struct Orders {
    subscription: KeySubscription,
    /// The newest action that was followed.
    seen: Timestamp,
}

impl Orders {
    /// Follows operators' actions until this instant.
    pub(crate) async fn follow_until(&mut self, server: &Arc<Server>, until: Instant) {
        loop {
            let is_new = self.subscription.renew(&*server.store, FLEET, Instant::now() + ASK_WITHIN).await;
            if is_new && self.seen == Timestamp::default() {
                // To follow an action twice is harmless.
                self.seen = server.time.now() - ASK_WITHIN;
            }
            // A renewal that failed is repeated after the next heartbeat.
            let wake = self.subscription.renewal().filter(|renewal| *renewal > Instant::now());
            tokio::select! {
                biased;
                () = self.subscription.notified() => {
                    sleep(GATHER).await;
                    // The next heartbeat, or extension, finds it in any case.
                    let _is_logged = self.obey(server).await;
                }
                () = sleep_until(wake.map_or(until, |wake| wake.min(until))) => {}
            }
            if Instant::now() >= until {
                return;
            }
        }
    }

    /// Reads the actions since the last time, and follows those that concern this server.
    async fn obey(&mut self, server: &Arc<Server>) -> Result<(), StoreError> {
        let requests = server.requests(ASK_WITHIN);
        let actions = requests.fleet_state().await?.actions;
        let seen = self.seen;
        self.seen = actions.first().map_or(seen, |newest| newest.at);
        let mut runs_requested = false;
        for action in actions.iter().take_while(|action| action.at >= seen) {
            match (action.what, action.key.as_deref()) {
                (ActionKind::Cancel | ActionKind::Unlock, Some(key)) => server.running.check_lease(key),
                (ActionKind::Run, Some(key)) => runs_requested |= server.jobs.contains_key(key),
                _ => {}
            }
        }
        if runs_requested {
            manual_run::take_up_all(server, requests.requested_runs().await?);
        }
        Ok(())
    }
}
