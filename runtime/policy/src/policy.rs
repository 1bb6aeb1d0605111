//! The policy of a job: checked values with defaults.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::duration::show;
use crate::{Schedule, Timestamp};

/// The policy of a job: all arguments of the attribute, with the defaults filled in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Policy {
    /// The name of the job, and of its lock, on every server.
    pub key: String,
    /// How long a lease lasts without an extension: how long a crash blocks the job.
    pub ttl: Duration,
    /// When the job is due; without a schedule it runs only manually.
    pub schedule: Option<Schedule>,
    /// Cancels a run that takes longer, with all its tries. A run that blocks and returns later counts as
    /// timed out.
    pub timeout: Option<Duration>,
    /// How often a failed run is retried under the same lease.
    pub retries: u32,
    /// The pause before the first retry; it grows.
    pub retry_delay: Duration,
    /// What happens to a tick that is due while the previous run is in progress.
    pub overlap: Overlap,
    /// What happens to ticks that no server could run.
    pub missed: Missed,
    /// What happens to a tick whose run did not finish.
    pub on_crash: OnCrash,
    /// How many further attempts an unfinished tick gets with [`OnCrash::Retry`].
    pub takeovers: u32,
    /// How late a tick may still start, if not [the default](Policy::grace_of).
    pub grace: Option<Duration>,
    /// Delays the start by an amount derived from key and tick, below this.
    pub jitter: Option<Duration>,
    /// Whether the lease is extended during the run.
    pub keep_alive: bool,
    /// What happens to a run whose lease is lost.
    pub on_lost: OnLost,
    /// Number of failures in a row after which the job is paused.
    pub pause_after: Option<u32>,
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            pub(crate) const CHOICES: &'static [(&'static str, Self)] = &[$(($text, Self::$variant)),+];

            /// Returns the choice as the attribute has it.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}

choice! {
    /// What happens to a tick that is due while the previous run is in progress.
    Overlap {
        /// The tick is skipped, once for all servers.
        #[default]
        Skip = "skip",
        /// The tick starts when the previous run ends, within its grace.
        Queue = "queue",
    }
}

choice! {
    /// What happens to ticks that passed while no server or no store was available.
    Missed {
        /// They are counted, not run.
        #[default]
        Skip = "skip",
        /// The newest of them runs once.
        RunOnce = "run_once",
    }
}

choice! {
    /// What happens to a tick whose run did not finish: its server died, shut down or lost the lease.
    OnCrash {
        /// The tick is over; the next one starts clean.
        #[default]
        Skip = "skip",
        /// Another server takes the tick over when the lease has expired.
        Retry = "retry",
    }
}

choice! {
    /// What happens to a run whose lease can no longer be proved.
    OnLost {
        /// It is cancelled: notified, and dropped at its next `await`.
        #[default]
        Cancel = "cancel",
        /// It is notified, and continues.
        Continue = "continue",
    }
}

impl Policy {
    /// The default policy for a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            ttl: Duration::from_secs(60),
            schedule: None,
            timeout: None,
            retries: 0,
            retry_delay: Duration::from_secs(5),
            overlap: Overlap::Skip,
            missed: Missed::Skip,
            on_crash: OnCrash::Skip,
            takeovers: 1,
            grace: None,
            jitter: None,
            keep_alive: true,
            on_lost: OnLost::Cancel,
            pause_after: None,
        }
    }

    /// How late this tick may still start: the grace if one is set; else the gap to the next tick, and
    /// with [`Overlap::Skip`] never more than the ttl.
    pub fn grace_of(&self, tick: Timestamp) -> Duration {
        self.grace_before(tick, self.schedule.as_ref().and_then(|schedule| schedule.next_after(tick)))
    }

    /// The same, when the tick after it is known already.
    pub fn grace_before(&self, tick: Timestamp, next: Option<Timestamp>) -> Duration {
        let gap = next.map_or(self.ttl, |next| next.since(tick));
        self.grace.unwrap_or(match self.overlap {
            Overlap::Skip => gap.min(self.ttl),
            Overlap::Queue => gap,
        })
    }

    /// How long after its tick a run starts: the same on every server, below the jitter.
    pub fn delay_of(&self, tick: Timestamp) -> Duration {
        let Some(jitter) = self.jitter else { return Duration::ZERO };
        let millis = u64::try_from(jitter.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut bytes = self.key.as_bytes().to_vec();
        bytes.extend_from_slice(&tick.as_micros().to_be_bytes());
        Duration::from_millis(fnv1a(&bytes) % millis)
    }

    /// Differs between servers whose schedule or policy of the job differ.
    pub fn fingerprint(&self) -> String {
        format!("{:016x}", fnv1a(format!("{self:?}").as_bytes()))
    }

    /// The arguments of the attribute that have an effect, by name, with their values as text. The schedule is not among them.
    pub fn arguments(&self) -> BTreeMap<&'static str, String> {
        let is_scheduled = self.schedule.is_some();
        let is_retried = self.retries > 0;
        let takes_over = self.on_crash == OnCrash::Retry;
        let arguments = [
            ("ttl", Some(show(self.ttl))),
            ("timeout", self.timeout.map(show)),
            ("retries", Some(self.retries.to_string())),
            ("retry_delay", is_retried.then(|| show(self.retry_delay))),
            ("overlap", is_scheduled.then(|| self.overlap.as_str().to_owned())),
            ("missed", is_scheduled.then(|| self.missed.as_str().to_owned())),
            ("on_crash", is_scheduled.then(|| self.on_crash.as_str().to_owned())),
            ("takeovers", takes_over.then(|| self.takeovers.to_string())),
            ("grace", self.grace.map(show)),
            ("jitter", self.jitter.map(show)),
            ("keep_alive", Some(self.keep_alive.to_string())),
            ("on_lost", Some(self.on_lost.as_str().to_owned())),
            ("pause_after", self.pause_after.map(|failures| failures.to_string())),
        ];
        arguments.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// How many attempts beyond the first an unfinished tick may get.
    pub fn allowed_takeovers(&self) -> u32 {
        match self.on_crash {
            OnCrash::Skip => 0,
            OnCrash::Retry => self.takeovers,
        }
    }
}

/// FNV-1a, finished with a mix so that consecutive ticks spread out. Fixed here for ever: servers of
/// different versions must agree on a tick's delay.
fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}
