//! The reason for what became of a tick: text, and instants that are shown in the reader's zone.

use jiff::tz::TimeZone;
use singleton_jobs_policy::jiff;

use crate::Timestamp;

/// The rest of a sentence whose subject is a tick.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reason(Vec<ReasonPart>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReasonPart {
    Text(String),
    Instant(Timestamp),
}

/// Joins texts, instants, and other reasons; those that are `None` are left out.
macro_rules! reason {
    ($($part:expr),+ $(,)?) => {
        [$($crate::observe::fleet::reason::Reason::from($part)),+]
            .into_iter()
            .collect::<$crate::observe::fleet::reason::Reason>()
    };
}
pub(super) use reason;

impl Reason {
    #[cfg(feature = "dashboard")]
    pub(crate) fn parts(&self) -> &[ReasonPart] {
        &self.0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text for readers in this zone. An instant has its date if that is another one than the tick's.
    pub(super) fn in_zone(&self, zone: &TimeZone, tick: Timestamp) -> String {
        let text = |part: &ReasonPart| match part {
            ReasonPart::Text(text) => text.clone(),
            ReasonPart::Instant(instant) => time_near(*instant, tick, zone),
        };
        self.0.iter().map(text).collect()
    }
}

/// The time of day, with the date if it is another one than that of the other instant.
pub(crate) fn time_near(instant: Timestamp, other: Timestamp, zone: &TimeZone) -> String {
    let zoned =
        |instant: Timestamp| jiff::Timestamp::try_from(instant).ok().map(|at| at.to_zoned(zone.clone()));
    let (Some(at), Some(other)) = (zoned(instant), zoned(other)) else { return instant.to_string() };
    let date = if at.date() == other.date() { "" } else { "%Y-%m-%d " };
    let time = if at.second() == 0 { "%H:%M" } else { "%H:%M:%S" };
    at.strftime(&format!("{date}{time}")).to_string()
}

impl FromIterator<Reason> for Reason {
    fn from_iter<T: IntoIterator<Item = Reason>>(reasons: T) -> Self {
        Self(reasons.into_iter().flat_map(|reason| reason.0).collect())
    }
}

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        Self(vec![ReasonPart::Text(text.to_owned())])
    }
}

impl From<&String> for Reason {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self(vec![ReasonPart::Text(text)])
    }
}

impl From<Timestamp> for Reason {
    fn from(instant: Timestamp) -> Self {
        Self(vec![ReasonPart::Instant(instant)])
    }
}

impl From<Option<Reason>> for Reason {
    fn from(reason: Option<Reason>) -> Self {
        reason.unwrap_or_default()
    }
}
