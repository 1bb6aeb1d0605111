//! The results of a tick on a server, as values of a label.

use crate::observe::event::SkipReason;

/// Defines the results, their names, and how many there are.
macro_rules! results {
    ($($result:ident = $name:literal,)+) => {
        /// The result of a tick on a server. The names are those in the log.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum TickResult {
            $($result,)+
        }

        impl TickResult {
            pub(super) const ALL: &[Self] = &[$(Self::$result,)+];

            pub(super) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$result => $name,)+
                }
            }
        }
    };
}

results! {
    // It ran here.
    Succeeded = "succeeded",
    Failed = "failed",
    Panicked = "panicked",
    TimedOut = "timed_out",
    Cancelled = "cancelled",
    LeaseLost = "lease_lost",
    // No server ran it.
    Missed = "missed",
    // It did not run here.
    Held = "held",
    Late = "late",
    StoreUnavailable = "store_unavailable",
    ApplicationBlocked = "application_blocked",
    Taken = "taken",
    Superseded = "superseded",
    Ahead = "ahead",
    Unregistered = "unregistered",
    Paused = "paused",
    Busy = "busy",
    NotStarted = "not_started",
    NotReplicated = "not_replicated",
    StillRunning = "still_running",
    Stopping = "stopping",
}

impl TickResult {
    /// How many there are.
    pub(super) const COUNT: usize = Self::ALL.len();

    /// Whether its counter exists from the start of the server: an alert must see the first increment, and Prometheus
    /// sees none if the series begins with it. Others begin when they are needed, so that there are fewer series.
    pub(super) fn is_counted_from_the_start(self) -> bool {
        self as usize <= Self::ApplicationBlocked as usize
    }
}

impl From<&SkipReason> for TickResult {
    fn from(reason: &SkipReason) -> Self {
        match reason {
            SkipReason::Held(_) => Self::Held,
            SkipReason::Taken(_) => Self::Taken,
            SkipReason::Superseded(_) => Self::Superseded,
            SkipReason::MarkAhead(_) => Self::Ahead,
            SkipReason::Unregistered => Self::Unregistered,
            SkipReason::Paused(_) => Self::Paused,
            SkipReason::Late(_) => Self::Late,
            SkipReason::Busy => Self::Busy,
            SkipReason::WonTooLate => Self::NotStarted,
            SkipReason::NotReplicated(_) => Self::NotReplicated,
            SkipReason::StillRunning => Self::StillRunning,
            SkipReason::ApplicationBlocked => Self::ApplicationBlocked,
            SkipReason::StoreUnavailable(_) => Self::StoreUnavailable,
            SkipReason::Stopping => Self::Stopping,
        }
    }
}
