use std::error::Error;
use std::fmt;

/// A request to the store whose result is unknown: it may or may not have been applied.
///
/// Losing a race is never an error; see [`ClaimDecision`](super::ClaimDecision).
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    step: &'static str,
    location: String,
    cause: Box<dyn Error + Send + Sync>,
}

/// The kind of a [`StoreError`], which decides what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// No server answers at the store's address, or the connection broke.
    Unreachable,
    /// The store did not answer in time.
    TimedOut,
    /// The store has no room for another write.
    Full,
    /// The claim was won, but fewer replicas have it than were asked for: a failover could lose it.
    NotReplicated,
    /// The store answered, and refused: no permission, wrong password, a read-only replica.
    Refused,
    /// TLS failed: one side does not trust the other's certificate, or only one side uses TLS.
    Untrusted,
    /// The store holds something that this version cannot read.
    Unreadable,
    /// The store's address or namespace is invalid.
    Misconfigured,
}

impl StoreErrorKind {
    /// Whether the store may recover by itself, so that a start is worth repeating.
    pub(crate) fn is_outage(self) -> bool {
        matches!(self, Self::Unreachable | Self::TimedOut | Self::Full)
    }

    /// Whether a request is worth repeating: after an outage, and also after a refusal, since a replica that refuses may be
    /// promoted within a second. What cannot be read stays so until an operator acts.
    pub(crate) fn is_retryable(self) -> bool {
        !matches!(self, Self::Unreadable | Self::Misconfigured)
    }

    /// What to do about it, on a server or on the disk of this machine.
    fn remedy(self, is_on_disk: bool) -> &'static str {
        match self {
            Self::Unreachable if is_on_disk => "check that its folder is there, and may be read and written",
            Self::TimedOut if is_on_disk => "check whether another process keeps it locked, or the disk busy",
            Self::Unreachable => "check that it is running and reachable from this server",
            Self::TimedOut => "check its load and the network",
            Self::Full => "give it more memory or disk space; no new run starts until then",
            Self::NotReplicated => {
                "check the replicas and their connections; no run starts until enough of them have its claim"
            }
            Self::Refused => "check the user, its permissions, and that this is not a read-only replica",
            Self::Untrusted => "check the certificates and TLS settings of both sides",
            Self::Unreadable => {
                "another version of this crate, or another program, wrote it; run one version on all servers, or use \
                 another namespace"
            }
            Self::Misconfigured => "correct it and start again",
        }
    }
}

impl StoreError {
    /// Creates an error of a store: `step` is the method that failed, `location` as in
    /// [`Store::location`](super::Store::location).
    pub fn new(
        kind: StoreErrorKind,
        step: &'static str,
        location: impl Into<String>,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self { kind, step, location: location.into(), cause: cause.into() }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Returns the error of the store or of the connection to it. It is part of the message, so it is not a
    /// [`source`](Error::source) as well: reporters that follow sources would print it twice.
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        self.cause.as_ref()
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, step, location, cause } = self;
        let is_on_disk = ["file:", "sqlite:"].iter().any(|scheme| location.starts_with(scheme));
        write!(f, "{step} failed on {location}: {cause}; {}", kind.remedy(is_on_disk))
    }
}

impl Error for StoreError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_fits_a_store_on_a_server_and_one_on_a_disk() {
        let said = |location: &str| {
            StoreError::new(StoreErrorKind::Unreachable, "look", location, "no such file").to_string()
        };
        assert!(
            said("redis://host:6379").ends_with("check that it is running and reachable from this server")
        );
        for location in ["file:///var/lib/jobs", "sqlite:///var/lib/jobs.db"] {
            assert!(said(location).ends_with("its folder is there, and may be read and written"));
        }
    }
}
