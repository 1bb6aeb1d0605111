//! Who is there, and which runs were asked for. Nothing is decided by it, so it may be kept apart from the jobs' states.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use singleton_jobs_policy::Timestamp;

use super::super::messages::{Announcement, RequestHint, Requested, ServerInfo};

/// What a store keeps for one namespace beside its keys: notes that count until they expire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fleet {
    /// By the server's id: until when its announcement counts, and what it says.
    pub servers: BTreeMap<String, (Timestamp, String)>,
    /// By the job's key: until when the request waits, and its id.
    pub requested: BTreeMap<String, (Timestamp, String)>,
}

impl Fleet {
    fn drop_expired(&mut self, now: Timestamp) {
        self.servers.retain(|_, (until, _)| *until > now);
        self.requested.retain(|_, (until, _)| *until > now);
    }
}

/// A server says that it is there, and is told which runs were requested.
pub fn announce(fleet: &mut Fleet, now: Timestamp, announcement: &Announcement) -> Vec<RequestHint> {
    fleet.drop_expired(now);
    let entry = (now.plus(announcement.ttl), announcement.about.to_string());
    fleet.servers.insert(announcement.server.clone(), entry);
    let hint =
        |(key, (_, id)): (&String, &(Timestamp, String))| RequestHint { key: key.clone(), id: id.clone() };
    fleet.requested.iter().map(hint).collect()
}

/// A server says that it is gone.
pub fn leave(fleet: &mut Fleet, now: Timestamp, server: &str) {
    fleet.drop_expired(now);
    fleet.servers.remove(server);
}

/// The servers whose announcements still count.
pub fn servers(fleet: &Fleet, now: Timestamp) -> Vec<ServerInfo> {
    let living = fleet.servers.values().filter(|(until, _)| *until > now);
    // What a newer version announces may not be readable; the others still are.
    living.filter_map(|(_, about)| serde_json::from_str(about).ok()).collect()
}

/// Lets every server know of a request that [`request`](super::request) said counts. Only after it was kept: whoever
/// reads the hint must find the request.
pub fn hint(fleet: &mut Fleet, now: Timestamp, key: &str, counts: &Requested) {
    fleet.drop_expired(now);
    fleet.requested.insert(key.to_owned(), (counts.until, counts.id.clone()));
}
