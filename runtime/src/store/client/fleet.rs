//! Reads the history of jobs, the held locks, and the servers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{FLEET, SLOTS, StoreClient};
use crate::Timestamp;
use crate::fleet::{HeldLock, Manifest, ServerInfo};
use crate::history::History;
use crate::observe::fleet::memory::KnownReads;
use crate::observe::fleet::overview::OverviewParts;
use crate::observe::fleet::ticks::Ticks;
use crate::store::{JobRecords, Look, Note, Notes, StoreError, Topic, decide};

/// A server sends a heartbeat every 20 s, of which one may get lost.
pub(crate) const ALIVE_FOR: Duration = Duration::from_secs(45);

/// The servers that have announced themselves.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnnouncedServers {
    pub(crate) alive: Vec<ServerInfo>,
    /// Those whose heartbeats have stopped without a shutdown.
    pub(crate) lost: Vec<ServerInfo>,
}

/// Number of jobs whose records are read in one request.
const PAGE: usize = 1000;

/// Returns the key of a lock or semaphore, from that of its record.
pub(crate) fn lock_key(record: &str) -> &str {
    record.strip_suffix(SLOTS).unwrap_or(record)
}

/// Whether the record of a key is a job's: it does not expire.
pub(crate) fn is_job(key: &str, look: &Look) -> bool {
    look.version.is_some() && look.state.expires.is_none() && key != FLEET && !key.ends_with(SLOTS)
}

impl StoreClient<'_> {
    /// Returns the history of a job, and the store's time.
    pub(crate) async fn history(&self, key: &str) -> Result<(History, Timestamp), StoreError> {
        let (look, _) = self.look("history", key).await?;
        let records = self.records("history", key).await?;
        self.observer.answered("history");
        Ok((decide::history(&look, records), look.now))
    }

    /// Returns all run and skip records of a key.
    async fn records(&self, step: &'static str, key: &str) -> Result<JobRecords, StoreError> {
        let found = self.ask(step, self.store.records(&[key.to_owned()], usize::MAX)).await?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// Returns every key of the store, with its look.
    pub(crate) async fn list(&self, step: &'static str) -> Result<BTreeMap<String, Look>, StoreError> {
        // A key may be on more than one page.
        let (mut keys, mut next) = (BTreeMap::new(), None);
        loop {
            let page = self.ask(step, self.store.list(next.as_deref())).await?;
            keys.extend(page.keys);
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        self.observer.answered(step);
        Ok(keys)
    }

    /// Returns the keys of the jobs that have a record.
    pub(crate) async fn jobs(&self) -> Result<BTreeSet<String>, StoreError> {
        let keys = self.list("jobs").await?;
        Ok(keys.into_iter().filter(|(key, look)| is_job(key, look)).map(|(key, _)| key).collect())
    }

    /// Returns the keys of the jobs that a server has registered, or that are paused.
    pub(crate) async fn registered_jobs(&self) -> Result<BTreeSet<String>, StoreError> {
        let is_registered = |look: &Look| look.state.registered.is_some() || look.state.pause.is_some();
        let keys = self.list("jobs").await?;
        Ok(keys.into_iter().filter(|(_, look)| is_registered(look)).map(|(key, _)| key).collect())
    }

    /// Returns what an overview is made of, with the newest records of each job. Records that are known are not read again.
    pub(crate) async fn overview(
        &self,
        newest: usize,
        known: &mut KnownReads,
    ) -> Result<OverviewParts, StoreError> {
        let keys = self.list("overview").await?;
        let jobs = keys.iter().filter(|(key, look)| is_job(key, look));
        let (mut records, mut unknown) = (BTreeMap::new(), Vec::new());
        for (key, look) in jobs {
            match known.records(key, look, newest) {
                Some(found) => drop(records.insert(key.clone(), found)),
                None => unknown.push(key.clone()),
            }
        }
        known.retain(&keys);
        for page in unknown.chunks(PAGE) {
            let found = self.ask("overview", self.store.records(page, newest)).await?;
            for (key, found) in page.iter().zip(found) {
                let found = Arc::new(found);
                known.keep(key, &keys[key], newest, &found);
                records.insert(key.clone(), found);
            }
        }
        let servers = self.announced_servers().await?;
        let manifests = self.ask("manifests", self.store.notes(Topic::Manifests)).await?.notes;
        self.observer.answered("manifests");
        let (manifests, now) = (known.manifests(manifests), self.time.now());
        Ok(OverviewParts { now, keys, records, newest, servers, manifests })
    }

    /// Returns the ticks of a job, with what became of each.
    pub(crate) async fn ticks(&self, key: &str) -> Result<Ticks, StoreError> {
        let (look, _) = self.look("ticks", key).await?;
        let records = self.records("ticks", key).await?;
        let servers = self.servers().await?;
        let manifests = self.manifests().await?;
        Ok(Ticks::new(key, &look, records, &servers, manifests.into_values()))
    }

    /// Returns the locks and slots that are held.
    pub(crate) async fn locks(&self) -> Result<Vec<HeldLock>, StoreError> {
        let keys = self.list("locks").await?;
        let of_key = |(key, look): (&String, &Look)| decide::held(look, lock_key(key));
        let mut held: Vec<_> = keys.iter().flat_map(of_key).collect();
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
        let requests = self.requested_runs().await?;
        self.observer.answered("announce");
        Ok(requests)
    }

    /// Writes the manifest of a program.
    pub(crate) async fn put_manifest(&self, manifest: &Note, ttl: Duration) -> Result<(), StoreError> {
        self.ask("announce", self.store.put_note(Topic::Manifests, manifest, ttl)).await.map(drop)
    }

    /// Returns the manifests that are known, by name. Leaves out those that this version cannot read.
    pub(crate) async fn manifests(&self) -> Result<BTreeMap<String, Manifest>, StoreError> {
        let notes = self.ask("manifests", self.store.notes(Topic::Manifests)).await?.notes;
        self.observer.answered("manifests");
        let read = |note: Note| Some((note.name, Manifest::from_json(&note.text).ok()?));
        Ok(notes.into_iter().filter_map(read).collect())
    }

    /// Returns the manual runs that were requested: the job's key, and the request's id.
    pub(crate) async fn requested_runs(&self) -> Result<Vec<Note>, StoreError> {
        Ok(self.ask("announce", self.store.notes(Topic::Requests)).await?.notes)
    }

    /// Removes the heartbeat of a server that shuts down.
    pub(crate) async fn leave(&self, server: &str) -> Result<(), StoreError> {
        let note = Note { name: server.to_owned(), text: "".into() };
        self.ask("leave", self.store.put_note(Topic::Servers, &note, Duration::ZERO)).await.map(drop)
    }

    /// Returns the servers that are alive.
    pub(crate) async fn servers(&self) -> Result<Vec<ServerInfo>, StoreError> {
        Ok(self.announced_servers().await?.alive)
    }

    /// Returns the servers whose announcements have not expired. Leaves out those that this version cannot read.
    pub(crate) async fn announced_servers(&self) -> Result<AnnouncedServers, StoreError> {
        let Notes { now, notes } = self.ask("servers", self.store.notes(Topic::Servers)).await?;
        self.observer.answered("servers");
        let servers = notes.iter().filter_map(|note| serde_json::from_str(&note.text).ok());
        let is_alive = |server: &ServerInfo| server.announced + ALIVE_FOR > now;
        let (alive, lost) = servers.partition(is_alive);
        Ok(AnnouncedServers { alive, lost })
    }
}
