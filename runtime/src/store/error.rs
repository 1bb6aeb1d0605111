use std::error::Error;
use std::fmt;

/// A step on the store whose result is unknown: it may or may not have been applied.
///
/// Losing a race is never an error; see [`ClaimReply`](super::ClaimReply).
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    step: &'static str,
    location: String,
    cause: Box<dyn Error + Send + Sync>,
}

/// What kind of trouble a [`StoreError`] is, and so what to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// Nothing answers at the store's address, or the connection broke.
    Unreachable,
    /// The store did not answer in time.
    TimedOut,
    /// The store has no room for another write.
    Full,
    /// The claim was won, but fewer replicas have it than were asked for: a failover could lose it.
    NotReplicated,
    /// The store answered, and refused: no permission, wrong password, a read-only replica.
    Refused,
    /// One side does not trust the other: a certificate, or that there is TLS on one side only.
    Untrusted,
    /// The store holds something that this version cannot read.
    Unreadable,
    /// The store's address or namespace cannot be used as it is written.
    Misconfigured,
}

impl StoreErrorKind {
    /// Whether trying again at start may help without anybody doing anything.
    pub(crate) fn may_pass(self) -> bool {
        matches!(self, Self::Unreachable | Self::TimedOut | Self::Full)
    }

    /// Whether a claim is worth repeating: a replica that refuses may be a primary in a second, but what
    /// cannot be read stays so until somebody acts.
    pub(crate) fn may_pass_soon(self) -> bool {
        !matches!(self, Self::Unreadable | Self::Misconfigured)
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Unreachable => "check that it runs and that this server can reach it",
            Self::TimedOut => "check its load and the network between",
            Self::Full => "give it more room; nothing new can start before",
            Self::NotReplicated => {
                "check the replicas and the way to them; nothing starts before enough of them have its claim"
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
    /// For writing a store: `step` is the method that failed, `location` as in
    /// [`Store::location`](super::Store::location).
    pub fn new(
        kind: StoreErrorKind,
        step: &'static str,
        location: impl Into<String>,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self { kind, step, location: location.into(), cause: cause.into() }
    }

    /// What kind of trouble it is.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// What the store, or the way to it, said. It is part of the message, so it is not a
    /// [`source`](Error::source) as well: reporters that follow sources would print it twice.
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        self.cause.as_ref()
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, step, location, cause } = self;
        write!(f, "{step} failed on {location}: {cause}; {}", kind.remedy())
    }
}

impl Error for StoreError {}
