//! The variants of a job: servers of different versions may have different schedules and settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fleet::{Manifest, ManifestJob, ServerInfo};

/// A schedule and settings of a job, and the servers that have it so.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobVariant {
    /// The ids of the servers.
    pub servers: Vec<String>,
    /// The job in the manifest of these servers; `None` if the store has lost it.
    pub job: Option<ManifestJob>,
}

/// The variants of each job, that of the newest server first. There is more than one during a deploy, or if servers are
/// configured differently.
pub(super) fn variants(
    mut servers: Vec<&ServerInfo>,
    manifests: &BTreeMap<String, Arc<Manifest>>,
) -> BTreeMap<String, Vec<JobVariant>> {
    servers.sort_by(|one, other| (other.started, &one.id).cmp(&(one.started, &other.id)));
    let mut found: BTreeMap<String, Vec<(&str, JobVariant)>> = BTreeMap::new();
    for server in servers {
        let manifest = manifests.get(&server.manifest);
        for job in &server.jobs {
            let known = found.entry(job.key.clone()).or_default();
            match known.iter_mut().find(|(hash, _)| *hash == job.hash) {
                Some((_, variant)) => variant.servers.push(server.id.clone()),
                None => {
                    let described = manifest.and_then(|manifest| manifest.job(&job.key)).cloned();
                    known.push((&job.hash, JobVariant { servers: vec![server.id.clone()], job: described }));
                }
            }
        }
    }
    let without_hash =
        |known: Vec<(&str, JobVariant)>| known.into_iter().map(|(_, variant)| variant).collect();
    found.into_iter().map(|(key, known)| (key, without_hash(known))).collect()
}
