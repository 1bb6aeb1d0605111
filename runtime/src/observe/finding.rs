//! Problems that a diagnosis found.

use std::fmt;

/// A problem with the store, with the connection to it, or with a job.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of problem.
    pub kind: FindingKind,
    /// The severity.
    pub severity: Severity,
    /// What was found, its consequence, and what to do.
    pub message: String,
}

/// The severity of a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// Nothing is known to be wrong.
    Note,
    /// Jobs run, but a promise may be broken in some failures.
    Warning,
    /// Jobs cannot run: a scheduler does not start, unless it
    /// [may start degraded](crate::Builder::allow_degraded_start).
    Error,
}

/// The kind of a [`Finding`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindingKind {
    /// The store may delete acknowledged writes when its memory is full.
    Evicts,
    /// The store may lose acknowledged writes in a crash or a restart.
    NotDurable,
    /// A failover may lose the newest writes.
    LosesOnFailover,
    /// The store has fewer replicas than a claim must wait for.
    TooFewReplicas,
    /// The store's version is too old.
    TooOld,
    /// The store takes no writes: a replica, a standby, read-only.
    NotPrimary,
    /// The URL names one node of a cluster as if it were a single server.
    ClusterNode,
    /// The folder is on a network share.
    NetworkShare,
    /// The store's file has several names, and processes that use different ones do not see each other.
    SeveralNames,
    /// Every user of this machine may change the store's data.
    OpenToOthers,
    /// The store's clock and this machine's differ by more than a second.
    ClockDiffers,
    /// Another version, or another program, wrote the records of jobs that this server has.
    Unreadable,
    /// The store takes longer to answer than a job's ttl allows.
    TooSlow,
    /// A job's ttl is many times longer than its interval, so a crash costs many ticks.
    LongTtl,
    /// A check was not possible.
    NotChecked,
    /// Any other problem, found by a custom store.
    Other,
}

impl Finding {
    /// For a custom store: a problem with which jobs cannot run.
    pub fn error(kind: FindingKind, message: impl Into<String>) -> Self {
        Self { kind, severity: Severity::Error, message: message.into() }
    }

    /// For a custom store: a problem that should be fixed.
    pub fn warning(kind: FindingKind, message: impl Into<String>) -> Self {
        Self { kind, severity: Severity::Warning, message: message.into() }
    }

    /// For a custom store: a check that was not possible.
    pub fn not_checked(message: impl Into<String>) -> Self {
        Self { kind: FindingKind::NotChecked, severity: Severity::Note, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// How many jobs' records are checked at most: more would delay the start.
pub(crate) const LOOKED_AT: usize = 10_000;

/// The findings about the records of these jobs, of which some cannot be read.
pub(crate) fn about_states(looked_at: &[String], all: usize, unreadable: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !unreadable.is_empty() {
        let message = format!(
            "the state of {} was written by another version of this crate, or by another program: this server cannot run \
             it; upgrade this server, or use another namespace",
            names(unreadable)
        );
        findings.push(Finding::warning(FindingKind::Unreadable, message));
    }
    if looked_at.len() < all {
        let message = format!("of {all} jobs the states of the first {} were looked at", looked_at.len());
        findings.push(Finding::not_checked(message));
    }
    findings
}

/// `a, b and 7 more`.
pub(crate) fn names(keys: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = keys.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    match keys.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
