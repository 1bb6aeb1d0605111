//! The manifest of a program: its jobs, with their schedules and settings, for people and for tools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Job;

/// The version of the manifest's format.
const FORMAT: u32 = 1;

/// The jobs of a program, with their schedules and settings: [`jobs::manifest`](crate::manifest). Servers share theirs by the store, and
/// `jobsctl plan` compares one with what the fleet has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    /// The version of this format: 1.
    pub format: u32,
    /// The version of the application ([`Builder::version`](crate::Builder::version)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_version: Option<String>,
    /// The jobs, by key.
    pub jobs: Vec<ManifestJob>,
}

/// A job in a [manifest](Manifest).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ManifestJob {
    /// Its key.
    pub key: String,
    /// The schedule: `0 3 * * * Europe/Berlin`, or `every 10m`; `None` for a job with manual runs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// The doc comment of the function, or the description of the builder.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The place in the source: `src/imports.rs:14`.
    pub place: String,
    /// The arguments of the attribute that have an effect, by name.
    pub arguments: BTreeMap<String, String>,
}

impl Manifest {
    pub(crate) fn new<'a>(app_version: Option<&str>, jobs: impl IntoIterator<Item = &'a Job>) -> Self {
        let mut jobs: Vec<_> = jobs.into_iter().map(ManifestJob::of).collect();
        jobs.sort_by(|one, other| one.key.cmp(&other.key));
        Self { format: FORMAT, app_version: app_version.map(str::to_owned), jobs }
    }

    /// Reads what [`to_json`](Self::to_json) wrote. Refuses another format.
    pub fn from_json(json: &str) -> Result<Self, String> {
        let manifest: Self =
            serde_json::from_str(json).map_err(|error| format!("not a manifest of jobs: {error}"))?;
        if manifest.format != FORMAT {
            let format = manifest.format;
            return Err(format!("a manifest of format {format}; this version reads format {FORMAT}"));
        }
        Ok(manifest)
    }

    /// Returns the manifest as JSON, indented for people and for diffs.
    ///
    /// # Panics
    ///
    /// Never: a manifest is plain data.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a manifest is plain data")
    }

    /// The job with this key.
    pub fn job(&self, key: &str) -> Option<&ManifestJob> {
        self.jobs.binary_search_by(|job| job.key.as_str().cmp(key)).ok().map(|found| &self.jobs[found])
    }
}

impl ManifestJob {
    /// A job about which nothing but its key is known.
    pub(crate) fn unknown(key: String) -> Self {
        Self {
            key,
            schedule: None,
            description: String::new(),
            place: String::new(),
            arguments: BTreeMap::new(),
        }
    }

    fn of(job: &Job) -> Self {
        let arguments = job.policy.arguments();
        Self {
            key: job.policy.key.clone(),
            schedule: job.policy.schedule.as_ref().map(ToString::to_string),
            description: job.description.clone(),
            place: job.place.clone(),
            arguments: arguments.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let job = |key: &str| Job::builder(key).every("0 3 * * *").retries(2, "1s").run(|_| async {}).build();
        let jobs = [job("report").unwrap(), job("import").unwrap()];
        Manifest::new(Some("1.4"), &jobs)
    }

    #[test]
    fn manifest_lists_jobs_by_key_with_the_arguments_that_have_an_effect() {
        let manifest = manifest();
        let keys: Vec<_> = manifest.jobs.iter().map(|job| job.key.as_str()).collect();
        assert_eq!(keys, ["import", "report"]);
        let job = manifest.job("report").expect("it is listed");
        assert_eq!(job.schedule.as_deref(), Some("0 3 * * * UTC"));
        assert_eq!(job.arguments.get("retry_delay").map(String::as_str), Some("1s"));
        assert_eq!(job.arguments.get("takeovers"), None, "without on_crash = \"retry\" it has no effect");
        assert_eq!(manifest.job("other"), None);
    }

    #[test]
    fn manifest_survives_its_json_and_another_format_is_refused() {
        let manifest = manifest();
        assert_eq!(Manifest::from_json(&manifest.to_json()).unwrap(), manifest);
        let newer = manifest.to_json().replace("\"format\": 1", "\"format\": 2");
        assert!(Manifest::from_json(&newer).unwrap_err().contains("format 2"));
        assert!(Manifest::from_json("{}").unwrap_err().starts_with("not a manifest"));
    }
}
