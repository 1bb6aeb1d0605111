//! The definition of a job: its key, its schedule and its policy, and every rule about them.
//!
//! The attribute checks a job with this crate while your program compiles, the runtime checks jobs built
//! at run time with the same functions, so a rule and its message exist once. It is an implementation
//! detail of the package `singleton-jobs`, which re-exports what users need.

mod duration;
mod fields;
mod key;
mod locked;
mod policy;
mod rules;
mod schedule;
mod settings;
mod template;
mod timestamp;
pub mod timing;
mod zoned_cron;

pub use duration::parse_duration;
pub use key::{LONGEST as LONGEST_KEY, check_key, check_name};
pub use locked::{LockDuration, LockedPolicy, LockedSettings};
pub use policy::{Missed, OnCrash, OnLost, Overlap, Policy};
pub use rules::Problem;
pub use schedule::{Schedule, ScheduleError};
pub use settings::Settings;
pub use template::{KeyPiece, KeyTemplate};
pub use timestamp::{ParseTimestampError, Timestamp};

/// The crate whose types [`Timestamp`] converts to and from.
pub use jiff;
