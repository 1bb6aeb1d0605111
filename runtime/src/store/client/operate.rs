//! Sends the messages of operators.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::{FLEET, StoreClient, slots_key};
use crate::fleet::{Forgotten, HeldLock};
use crate::history::CurrentRun;
use crate::store::{
    Action, FleetState, Look, Note, Pause, PauseOrder, RunRequest, StoreError, Topic, decide,
};

impl StoreClient<'_> {
    pub(crate) async fn pause(
        &self,
        key: &str,
        order: &PauseOrder,
        remember: usize,
    ) -> Result<Pause, StoreError> {
        self.change("pause", key, |look| decide::pause(look, order, remember)).await
    }

    pub(crate) async fn resume(
        &self,
        key: &str,
        by: &str,
        all: bool,
        remember: usize,
    ) -> Result<Option<Pause>, StoreError> {
        self.change("resume", key, |look| decide::resume(look, by, all, remember)).await
    }

    /// Pauses jobs that are registered from now on.
    pub(crate) async fn pause_fleet(&self, order: &PauseOrder) -> Result<Pause, StoreError> {
        self.change("pause", FLEET, |look| decide::pause_fleet(look, order)).await
    }

    pub(crate) async fn resume_fleet(&self) -> Result<Option<Pause>, StoreError> {
        self.change("resume", FLEET, decide::resume_fleet).await
    }

    /// Adds an action to the list of the fleet, and notifies the servers if it concerns one of them.
    pub(crate) async fn note_action(&self, action: &Action, notify: bool) -> Result<(), StoreError> {
        self.change("audit", FLEET, |look| decide::note_action(look, action, notify)).await
    }

    /// Returns what all servers share.
    pub(crate) async fn fleet_state(&self) -> Result<FleetState, StoreError> {
        let (look, _) = self.look("audit", FLEET).await?;
        self.observer.answered("audit");
        Ok(look.state.fleet.as_deref().cloned().unwrap_or_default())
    }

    pub(crate) async fn reset(&self, key: &str) -> Result<(), StoreError> {
        self.change("reset", key, decide::reset).await
    }

    pub(crate) async fn cancel(&self, key: &str, by: &Arc<str>) -> Result<Option<CurrentRun>, StoreError> {
        let seen = OnceLock::new();
        let decide = |look: &Look| decide::cancel(look, seen.get_or_init(|| look.clone()), by);
        self.change("cancel", key, decide).await
    }

    /// Removes the records of a job, and of a semaphore with the same key.
    pub(crate) async fn forget(&self, key: &str, quiet: Duration) -> Result<Forgotten, StoreError> {
        for record in [&*slots_key(key), key] {
            let reply = self.change("forget", record, |look| decide::forget(look, quiet)).await?;
            if reply != Forgotten::Yes {
                return Ok(reply);
            }
        }
        Ok(Forgotten::Yes)
    }

    /// Frees a key, and every slot of it.
    pub(crate) async fn break_lock(
        &self,
        key: &str,
        by: &Arc<str>,
        remember: usize,
    ) -> Result<Vec<HeldLock>, StoreError> {
        let mut broken = Vec::new();
        for record in [key, &slots_key(key)] {
            let seen = OnceLock::new();
            let decide =
                |look: &Look| decide::break_lock(look, key, seen.get_or_init(|| look.clone()), by, remember);
            broken.extend(self.change("break_lock", record, decide).await?);
        }
        Ok(broken)
    }

    /// Asks for a manual run on a server that has the job. Servers read the note at their next heartbeat. The note is written
    /// after the request, so that a server that reads the note finds the request.
    pub(crate) async fn request(
        &self,
        key: &str,
        id: &str,
        by: &str,
        ttl: Duration,
    ) -> Result<RunRequest, StoreError> {
        let counts = self.change("request", key, |look| decide::request(look, id, by, ttl)).await?;
        let note = Note { name: key.to_owned(), text: counts.id.as_str().into() };
        // The request that counts may be an earlier one, and last longer or shorter than this one.
        let ttl = counts.until.since(self.time.now());
        self.ask("request", self.store.put_note(Topic::Requests, &note, ttl)).await?;
        Ok(counts)
    }
}
