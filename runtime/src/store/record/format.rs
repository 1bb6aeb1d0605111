//! The format of what stores keep, and how versions of this crate read what another version wrote.

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::store::JobRecord;

/// The format of what stores keep: the one that this version writes, and the only one that it reads.
///
/// Everything is JSON in ASCII. A version adds optional fields without a new format: other versions ignore them. Any other
/// change needs a new format, also a new variant of an enumeration, and the new version then reads the previous format, too.
///
/// # Optional fields
///
/// During a deploy, servers of two versions write the same keys. A server that does not know a field reads the state without
/// it, and the next state that it writes does not have it: the field is lost, until a server that knows it writes it again.
/// This is a rule, not an accident. A server that kept a field which it does not know would carry it over to a state that it
/// does not describe: the field of a lease to the next lease, that of a tick to the next tick. So a field that is there was
/// written together with everything around it, by a version that knows its meaning.
///
/// A new optional field must therefore be one whose absence is safe: without it, every version does what versions did before
/// the field existed. What must not get lost during a deploy needs a new format.
///
/// # Damage
///
/// A state or record that is cut off, or is not JSON of this format, is an error, and never counts as absent. There is no
/// checksum: a changed digit, or the changed name of an optional field, is read as it stands. Stores keep what was written.
///
/// # Formats
///
/// | stored | its format | what a version does with a format that it does not know |
/// |---|---|---|
/// | the state of a key | `format` in [`KeyState`](crate::store::KeyState) | refuses it: [`Unreadable`](crate::store::StoreErrorKind::Unreadable). No tick of the job starts; [`diagnose`](crate::store::Store::diagnose) names the jobs |
/// | run and skip records | `format` in each | refuses a job's history in the same way; claims do not read it, except with files |
/// | the note of a server | the crate's version in [`ServerInfo`](crate::fleet::ServerInfo) | leaves the server out of [`Jobs::servers`](crate::Jobs::servers) |
/// | the note of a requested run | none: it is the id of a request in the state | starts nothing: the state decides |
pub const FORMAT: u32 = 3;

/// A run or skip record as it is stored.
#[derive(Serialize, Deserialize)]
struct StoredRecord<T> {
    #[serde(deserialize_with = "this_format")]
    format: u32,
    #[serde(flatten)]
    record: T,
}

/// The format of a run or skip record.
#[derive(Deserialize)]
struct StoredFormat {
    #[serde(rename = "format", deserialize_with = "this_format")]
    _format: u32,
}

impl JobRecord {
    /// The record as text: JSON in ASCII only.
    ///
    /// # Panics
    ///
    /// Never: a record is plain data.
    pub fn to_json(&self) -> String {
        match self {
            Self::Run(record) => to_ascii_json(&StoredRecord { format: FORMAT, record }),
            Self::Skip(record) => to_ascii_json(&StoredRecord { format: FORMAT, record }),
        }
    }

    /// The [`RunRecord`](crate::history::RunRecord) or [`SkipRecord`](crate::history::SkipRecord) that
    /// [`to_json`](Self::to_json) wrote.
    pub fn from_json<T: DeserializeOwned>(json: impl AsRef<[u8]>) -> Result<T, UnreadableRecord> {
        let json = json.as_ref();
        // Twice: a flattened field is read into a tree first, which takes several times as long, and an overview reads thousands.
        let record = from_object::<StoredFormat>(json).and_then(|StoredFormat { .. }| from_object(json));
        record.map_err(|why| UnreadableRecord::of(json, "run or skip record", &why))
    }
}

/// Run or skip records in a list.
pub(crate) mod records {
    use super::{Deserialize, DeserializeOwned, Deserializer, FORMAT, Serialize, Serializer, StoredRecord};

    pub(crate) fn serialize<T: Serialize, S: Serializer>(records: &[T], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(records.iter().map(|record| StoredRecord { format: FORMAT, record }))
    }

    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<Vec<T>, D::Error>
    where
        T: DeserializeOwned,
        D: Deserializer<'de>,
    {
        let stored = Vec::<StoredRecord<T>>::deserialize(from)?;
        Ok(stored.into_iter().map(|stored| stored.record).collect())
    }
}

/// Returns JSON in ASCII only: a database of any encoding can keep it.
///
/// # Panics
///
/// Never for plain data.
pub fn to_ascii_json<T: Serialize>(value: &T) -> String {
    let json = serde_json::to_string(value).expect("plain data");
    if json.is_ascii() { json } else { escaped(&json) }
}

fn escaped(json: &str) -> String {
    use std::fmt::Write;
    let mut ascii = String::with_capacity(json.len() * 2);
    for c in json.chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            // Outside of ASCII there are only characters of strings.
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(ascii, "\\u{unit:04x}").expect("a string takes every write");
            }
        }
    }
    ascii
}

pub(crate) fn this_format<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let format = u32::deserialize(deserializer)?;
    let refusal =
        || D::Error::custom(format!("it has format {format}, and this version reads format {FORMAT}"));
    (format == FORMAT).then_some(format).ok_or_else(refusal)
}

/// Reads JSON that must be an object.
pub(crate) fn from_object<'de, T: Deserialize<'de>>(json: &'de [u8]) -> serde_json::Result<T> {
    let mut from = serde_json::Deserializer::from_slice(json);
    let value = object(&mut from)?;
    from.end().map(|()| value)
}

/// Reads an object. By itself serde reads the fields of a struct from an array, too, and takes `[3]` for a state of format 3
/// in which nothing is set.
pub(crate) fn object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    struct Object<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(fields))
        }
    }
    from.deserialize_map(Object(PhantomData))
}

/// Why a record cannot be read. The text follows the name of what holds the record: `has format 4, and …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableRecord(pub(crate) String);

impl UnreadableRecord {
    /// For JSON that was expected to be this. What another version wrote says so itself.
    pub(crate) fn of(json: &[u8], expected: &str, why: &serde_json::Error) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Format {
            format: Option<u32>,
            state: Option<Box<Format>>,
        }
        let outer: Format = serde_json::from_slice(json).unwrap_or_default();
        Self(match outer.format.or_else(|| outer.state?.format) {
            Some(format) if format != FORMAT => {
                format!("has format {format}, and this version reads format {FORMAT}")
            }
            _ => format!("is not the {expected} of a key ({why})"),
        })
    }
}

impl fmt::Display for UnreadableRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for UnreadableRecord {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;
    use crate::history::{Progress, RunOutcome, RunRecord, Skip, SkipRecord, Trigger};
    use crate::store::KeyState;

    #[test]
    fn state_is_stored_in_ascii() {
        let progress = Progress { done: 1, total: 2, status: "Grüße, 世界 🎉 \"\\\n\0".to_owned() };
        let json = to_ascii_json(&progress);
        assert!(json.is_ascii(), "{json}");
        assert_eq!(serde_json::from_str::<Progress>(&json).unwrap(), progress);
    }

    #[test]
    fn state_of_another_format_is_refused_by_its_number() {
        let refused = |json: &str| KeyState::from_json(json).unwrap_err().to_string();
        assert_eq!(refused(r#"{"format":1,"claimant":7}"#), "has format 1, and this version reads format 3");
        assert_eq!(refused(r#"{"format":4}"#), "has format 4, and this version reads format 3");
        assert!(refused("hello").starts_with("is not the state of a key"));
        assert!(refused("{}").starts_with("is not the state of a key"));
        assert!(refused("[3]").starts_with("is not the state of a key"));
        let state = KeyState::default();
        assert_eq!(KeyState::from_json(state.to_json()), Ok(state));
    }

    #[test]
    fn run_and_skip_records_are_stored_with_their_format() {
        let [tick, started, at] = [1, 2, 3].map(Timestamp::from_micros);
        let run = RunRecord {
            tick: Some(tick),
            server: "a".to_owned(),
            fence: i64::MAX,
            attempt: 1,
            started,
            ended: at,
            outcome: RunOutcome::TimedOut,
            error: Some("Größe".to_owned()),
            failed_tries: Vec::new(),
            log: None,
            progress: None,
            request: None,
            trigger: Trigger::Schedule,
            by: None,
            stopped_by: None,
            app_version: None,
        };
        let skip = SkipRecord::new(tick, Skip::Held, "a", at);
        let [run_json, skip_json] =
            [JobRecord::Run(run.clone()), JobRecord::Skip(skip.clone())].map(|record| record.to_json());
        assert_eq!(
            run_json,
            r#"{"format":3,"tick":1,"server":"a","fence":9223372036854775807,"attempt":1,"started":2,"ended":3,"outcome":"timed_out","error":"Gr\u00f6\u00dfe"}"#
        );
        assert_eq!(skip_json, r#"{"format":3,"tick":1,"reason":"held","server":"a","at":3}"#);
        assert_eq!(JobRecord::from_json(&run_json), Ok(run));
        assert_eq!(JobRecord::from_json(&skip_json), Ok(skip));
    }

    #[test]
    fn run_record_of_another_format_is_refused_by_its_number() {
        let refused = |json: &str| JobRecord::from_json::<SkipRecord>(json).unwrap_err().to_string();
        assert_eq!(refused(r#"{"format":4,"tick":[]}"#), "has format 4, and this version reads format 3");
        assert!(
            refused(r#"{"tick":1,"reason":"held","server":"a","at":3}"#)
                .starts_with("is not the run or skip")
        );
        assert!(refused("hello").starts_with("is not the run or skip record of a key"));
    }
}
