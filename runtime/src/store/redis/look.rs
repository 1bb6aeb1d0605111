//! Looks: five plain commands in one pipeline, and no script, because most looks are those of servers that lose.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};

use super::super::{FORMAT, Lock, Look, State, Version};
use super::keys::Keys;
use super::token;
use crate::Timestamp;

/// How many commands [`add_look`] adds.
pub(super) const COMMANDS: usize = 5;

/// Adds the commands that read a key. The clock is read last: then a lock never seems to expire too early.
pub(super) fn add_look(pipeline: &mut Pipeline, keys: &Keys, key: &str) {
    let (lock, record) = (keys.lock(key), keys.record(key));
    let mut fields = Cmd::with_capacity(6, record.len() + 32);
    fields.arg("HMGET").arg(&record).arg("format").arg("version").arg("fence").arg("state");
    pipeline
        .add_command(fields)
        .cmd("EXISTS")
        .arg(&record)
        .cmd("GET")
        .arg(&lock)
        .cmd("PTTL")
        .arg(&lock)
        .cmd("TIME");
}

/// Sends commands that only read, and returns one answer for each; errors are among them.
///
/// While a slot moves to another node of a cluster, that node does not yet know all of its keys: what it answers after an
/// `ASK` may be a false "absent". So a read is never sent there, and the caller repeats it.
pub(super) async fn send(
    mut connection: MultiplexedConnection,
    pipeline: &Pipeline,
    asking: bool,
) -> RedisResult<Vec<Value>> {
    if asking {
        return Err(slot_is_moving());
    }
    let answers = connection.send_packed_commands(pipeline, 0, pipeline.len()).await?;
    match answers.iter().find(|answer| is_redirection(answer)) {
        Some(redirection) => Err(redirection.clone().extract_error().err().unwrap_or_else(slot_is_moving)),
        None => Ok(answers),
    }
}

/// Whether another node of a cluster has, or may have, the key.
pub(super) fn is_redirection(answer: &Value) -> bool {
    use ServerErrorKind::{Ask, ClusterDown, Moved, TryAgain};
    let Value::ServerError(error) = answer else { return false };
    matches!(error.kind(), Some(Moved | Ask | TryAgain | ClusterDown))
}

fn slot_is_moving() -> RedisError {
    let moving = "the slot of the key is being moved to another node of the cluster";
    (ErrorKind::Server(ServerErrorKind::TryAgain), "no look", moving.to_owned()).into()
}

/// Why answers are no look.
pub(super) enum Misread {
    /// The server refused a command.
    Refused(RedisError),
    /// There is a record, and it has no format. A look that was torn by the creation or the deletion of a record shows that,
    /// too.
    NoFormat,
    /// The record cannot be read; how its name goes on: `has format 1, and …`.
    Record(String),
}

impl From<String> for Misread {
    fn from(why: String) -> Self {
        Self::Record(why)
    }
}

/// Reads the answers to [`add_look`], which are also what swap.lua returns if it wrote nothing.
pub(super) fn read(answers: impl IntoIterator<Item = Value>) -> Result<Look, Misread> {
    let mut answers = answers.into_iter();
    let mut next = || answers.next().unwrap_or(Value::Nil);
    let (fields, exists, lock, pttl, time) = (next(), next(), next(), next(), next());
    let now = time_of(refuse_error(time)?).ok_or_else(|| "was answered without the time".to_owned())?;
    let lock = read_lock(lock, &refuse_error(pttl)?, now)?;
    let fields = match fields {
        Value::ServerError(error) if error.code() == "WRONGTYPE" => {
            return Err("is not a hash: another program wrote it".to_owned().into());
        }
        fields => refuse_error(fields)?,
    };
    let Value::Array(fields) = fields else {
        return Err("was answered without its fields".to_owned().into());
    };
    let [format, version, fence, state] = fields.as_slice() else {
        return Err("was answered with other fields".to_owned().into());
    };
    if *format == Value::Nil {
        if refuse_error(exists)? == Value::Int(0) {
            return Ok(Look { lock, ..Look::nothing(now) });
        }
        return Err(Misread::NoFormat);
    }
    let format = text_of(format).unwrap_or("unknown");
    if format.parse() != Ok(FORMAT) {
        return Err(format!("has format {format}, and this version reads format {FORMAT}").into());
    }
    let version: Version = text_of(version).unwrap_or_default().parse()?;
    let fence =
        text_of(fence).and_then(|fence| fence.parse().ok()).ok_or_else(|| "has no fence".to_owned())?;
    let state = match state {
        Value::BulkString(json) => State::from_json(json).map_err(|error| error.to_string())?,
        _ => return Err("has no state".to_owned().into()),
    };
    Ok(Look { now, version: Some(version), fence, state: Arc::new(state), lock })
}

/// The lock by its value and `PTTL`. What is not a string is another program's lock, too.
fn read_lock(value: Value, pttl: &Value, now: Timestamp) -> Result<Option<Lock>, Misread> {
    let token = match value {
        Value::Nil => return Ok(None),
        Value::BulkString(value) => token::of_value(&value),
        Value::ServerError(error) if error.code() != "WRONGTYPE" => {
            return Err(Misread::Refused(error.into()));
        }
        _ => token::NOT_A_STRING.into(),
    };
    let until = match pttl {
        // It expires at the end of the millisecond that is left last.
        Value::Int(left @ 0..) => {
            let millis = (now.as_micros() / 1000).saturating_add(*left).saturating_add(1);
            Some(Timestamp::from_micros(millis.saturating_mul(1000)))
        }
        Value::Int(-1) => None,
        // It has expired meanwhile.
        _ => return Ok(None),
    };
    Ok(Some(Lock { token, until }))
}

/// The answer to `TIME`.
pub(super) fn time_of(answer: Value) -> Option<Timestamp> {
    let Value::Array(parts) = answer else { return None };
    let [seconds, micros] = parts.as_slice() else { return None };
    let number = |part| text_of(part)?.parse::<i64>().ok();
    Some(Timestamp::from_micros(number(seconds)?.checked_mul(1_000_000)?.checked_add(number(micros)?)?))
}

pub(super) fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(text) => std::str::from_utf8(text).ok(),
        _ => None,
    }
}

fn refuse_error(answer: Value) -> Result<Value, Misread> {
    match answer {
        Value::ServerError(error) => Err(Misread::Refused(error.into())),
        answer => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn answers(fields: [Option<&str>; 4], exists: i64, lock: Value, pttl: i64) -> Vec<Value> {
        let fields = fields.map(|field| field.map_or(Value::Nil, bulk)).to_vec();
        let time = Value::Array(vec![bulk("1800014400"), bulk("1999")]);
        vec![Value::Array(fields), Value::Int(exists), lock, Value::Int(pttl), time]
    }

    fn misread(answers: Vec<Value>) -> String {
        match read(answers) {
            Err(Misread::Record(why)) => why,
            Err(Misread::Refused(error)) => error.to_string(),
            Err(Misread::NoFormat) => "no format".to_owned(),
            Ok(look) => panic!("{look:?}"),
        }
    }

    const NONE: [Option<&str>; 4] = [None; 4];

    #[test]
    fn record_of_another_format_is_never_no_record() {
        let fields = [Some("1"), None, Some("7"), None];
        assert_eq!(
            misread(answers(fields, 1, Value::Nil, -2)),
            "has format 1, and this version reads format 2"
        );
        assert_eq!(misread(answers(NONE, 1, Value::Nil, -2)), "no format");
        let look = read(answers(NONE, 0, Value::Nil, -2)).ok().unwrap();
        assert_eq!(look, Look::nothing(Timestamp::from_micros(1_800_014_400_001_999)));
    }

    #[test]
    fn damaged_record_is_unreadable() {
        let version = Some("1800014400000000-0123456789abcdef");
        for fields in [
            [Some("2"), Some("7"), Some("7"), Some("{\"format\":2}")],
            [Some("2"), version, Some("x"), Some("{\"format\":2}")],
            [Some("2"), version, Some("7"), Some("{")],
            [Some("2"), version, Some("7"), None],
        ] {
            assert!(!misread(answers(fields, 1, Value::Nil, -2)).is_empty());
        }
        let look = read(answers([Some("2"), version, Some("7"), Some("{\"format\":2}")], 1, Value::Nil, -2));
        assert_eq!(look.ok().unwrap().fence, 7);
    }

    #[test]
    fn lock_ends_with_its_last_millisecond() {
        let until = |pttl| read(answers(NONE, 0, bulk("t"), pttl)).ok().unwrap().lock.map(|lock| lock.until);
        assert_eq!(until(0), Some(Some(Timestamp::from_micros(1_800_014_400_002_000))));
        assert_eq!(until(-1), Some(None));
        assert_eq!(until(-2), None);
    }

    #[test]
    fn lock_that_is_not_a_string_is_a_lock() {
        let look = read(answers(NONE, 0, Value::Int(0), -1)).ok().unwrap();
        assert_eq!(look.lock.unwrap().token.as_ref(), token::NOT_A_STRING);
    }
}
