//! What a look at the store found.

use std::fmt;

/// Something about the store, or the way to it, that could hurt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What it is about.
    pub kind: FindingKind,
    /// How bad it is.
    pub severity: Severity,
    /// What was found, why it hurts and what to do.
    pub message: String,
}

/// How bad a [`Finding`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Severity {
    /// Nothing is known to be wrong.
    Note,
    /// Jobs run, but not under all circumstances as promised.
    Warning,
    /// Jobs cannot run: a scheduler does not start, unless it was told to
    /// [start all the same](crate::Builder::allow_degraded_start).
    Error,
}

/// What a [`Finding`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindingKind {
    /// The store may delete what it acknowledged when its memory is full.
    Evicts,
    /// The store may have forgotten what it acknowledged after a crash or a restart.
    NotDurable,
    /// A failover may lose the newest writes.
    LosesOnFailover,
    /// The store has fewer replicas than a claim is to wait for.
    TooFewReplicas,
    /// The store's version lacks what is needed.
    TooOld,
    /// The store takes no writes: a replica, a standby, read-only.
    NotPrimary,
    /// One node of a cluster was named as if it were the whole.
    ClusterNode,
    /// The folder is on a network share.
    NetworkShare,
    /// Everybody on this machine may change what the store knows.
    OpenToOthers,
    /// The store's clock and this machine's differ by more than a second.
    ClockDiffers,
    /// Another version, or another program, wrote the state of jobs that this server has.
    Unreadable,
    /// The store takes longer to answer than a job's ttl allows.
    TooSlow,
    /// A job's ttl is many times longer than its interval, so a crash costs many ticks.
    LongTtl,
    /// Something could not be looked at.
    NotChecked,
    /// Anything else, found by a store of your own.
    Other,
}

impl Finding {
    /// For writing a store: the kinds that are hard to live with.
    pub fn error(kind: FindingKind, message: impl Into<String>) -> Self {
        Self { kind, severity: Severity::Error, message: message.into() }
    }

    /// For writing a store: what should be changed.
    pub fn warning(kind: FindingKind, message: impl Into<String>) -> Self {
        Self { kind, severity: Severity::Warning, message: message.into() }
    }

    /// For writing a store: what could not be looked at.
    pub fn not_checked(message: impl Into<String>) -> Self {
        Self { kind: FindingKind::NotChecked, severity: Severity::Note, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The states of so many jobs are looked at: more would delay a start.
pub(crate) const LOOKED_AT: usize = 10_000;

/// What there is to say about the states of these jobs, of which some cannot be read.
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
