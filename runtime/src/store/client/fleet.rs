//! Reads the history of jobs, the held locks, and the servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{SLOTS, StoreClient};
use crate::Timestamp;
use crate::fleet::{HeldLock, ServerInfo};
use crate::history::History;
use crate::store::{Note, StoreError, Topic, decide};

impl StoreClient<'_> {
    /// Returns the history of a job, and the store's time.
    pub(crate) async fn history(&self, key: &str) -> Result<(History, Timestamp), StoreError> {
        let (look, _) = self.look("history", key).await?;
        let records = self.ask("history", self.store.records(key)).await?;
        self.observer.answered("history");
        Ok((decide::history(&look, records), look.now))
    }

    /// Returns the locks and slots that are held.
    pub(crate) async fn locks(&self) -> Result<Vec<HeldLock>, StoreError> {
        // A key may be on more than one page.
        let (mut held, mut next) = (BTreeMap::new(), None);
        loop {
            let page = self.ask("locks", self.store.list(next.as_deref())).await?;
            for (key, look) in page.keys {
                let locks = decide::held(&look, key.strip_suffix(SLOTS).unwrap_or(&key));
                held.insert(key, locks);
            }
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        self.observer.answered("locks");
        let mut held: Vec<_> = held.into_values().flatten().collect();
        held.sort_by(|one, other| (&one.key, one.fence).cmp(&(&other.key, other.fence)));
        Ok(held)
    }

    /// Writes the heartbeat of a server, and returns the manual runs that were requested: the job's key, and the request's id.
    pub(crate) async fn announce(
        &self,
        server: &str,
        about: Arc<str>,
        ttl: Duration,
    ) -> Result<Vec<Note>, StoreError> {
        let note = Note { name: server.to_owned(), text: about };
        let sent = Instant::now();
        let now = self.ask("announce", self.store.put_note(Topic::Servers, &note, ttl)).await?;
        self.time.learn(sent, now);
        let requests = self.ask("announce", self.store.notes(Topic::Requests)).await?.notes;
        self.observer.answered("announce");
        Ok(requests)
    }

    /// Removes the heartbeat of a server that shuts down.
    pub(crate) async fn leave(&self, server: &str) -> Result<(), StoreError> {
        let note = Note { name: server.to_owned(), text: "".into() };
        self.ask("leave", self.store.put_note(Topic::Servers, &note, Duration::ZERO)).await.map(drop)
    }

    /// Returns the servers whose heartbeats have not expired. Leaves out those that this version cannot read.
    pub(crate) async fn servers(&self) -> Result<Vec<ServerInfo>, StoreError> {
        let notes = self.ask("servers", self.store.notes(Topic::Servers)).await?.notes;
        self.observer.answered("servers");
        Ok(notes.iter().filter_map(|note| serde_json::from_str(&note.text).ok()).collect())
    }
}
