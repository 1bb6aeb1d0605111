//! Looks: four plain commands in one pipeline, and no script, because most looks are those of servers that lose.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value};

use super::super::{FORMAT, Lock, Look, Record};
use super::keys::Keys;
use super::token;
use crate::Timestamp;

/// How many commands [`add_look`] adds.
pub(super) const COMMANDS: usize = 4;

/// Adds the commands that read a key. The clock is read last: then a lock never seems to expire too early.
pub(super) fn add_look(pipeline: &mut Pipeline, keys: &Keys, key: &str) {
    let (lock, record) = (keys.lock(key), keys.record(key));
    for words in [&["GET", &record][..], &["GET", &lock], &["PTTL", &lock], &["TIME"]] {
        let mut command = Cmd::with_capacity(words.len(), words.iter().map(|word| word.len()).sum());
        command.arg(words);
        pipeline.add_command(command);
    }
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
    /// The record cannot be read; how its name goes on: `has format 1, and …`.
    Record(String),
}

impl Misread {
    fn record(why: impl Into<String>) -> Self {
        Self::Record(why.into())
    }
}

/// Reads the answers to [`add_look`], which are also what swap.lua returns if it wrote nothing.
pub(super) fn read(answers: impl IntoIterator<Item = Value>) -> Result<Look, Misread> {
    let mut answers = answers.into_iter();
    let mut next = || answers.next().unwrap_or(Value::Nil);
    let (record, lock, pttl, time) = (next(), next(), next(), next());
    let now = time_of(refuse_error(time)?).ok_or_else(|| Misread::record("was answered without the time"))?;
    let lock = read_lock(lock, &refuse_error(pttl)?, now)?;
    let record = match record {
        Value::Nil => None,
        Value::BulkString(text) => {
            Some(Record::from_first_line(text).map_err(|error| Misread::record(error.to_string()))?)
        }
        Value::ServerError(error) if error.code() != "WRONGTYPE" => {
            return Err(Misread::Refused(error.into()));
        }
        _ => {
            return Err(Misread::Record(format!(
                "is not a string: an older version (format 1) or another program wrote it, and this version reads format \
                 {FORMAT}"
            )));
        }
    };
    Ok(Record::look(record.as_ref(), lock.as_ref(), now))
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

    fn answers(record: Value, lock: Value, pttl: i64) -> Vec<Value> {
        let time = Value::Array(vec![bulk("1800014400"), bulk("1999")]);
        vec![record, lock, Value::Int(pttl), time]
    }

    #[test]
    fn damaged_record_is_unreadable_and_never_no_record() {
        let record = |version: &str, state: &str| {
            bulk(&format!("{{\"version\":\"{version}\",\"fence\":7,\"state\":{state}}}"))
        };
        let version = "1800014400000000-0123456789abcdef";
        for record in [
            record("7", "{\"format\":2}"),
            record(version, "{\"format\":3}"),
            record(version, "{"),
            bulk(""),
            Value::Int(0),
        ] {
            let read = read(answers(record, Value::Nil, -2));
            assert!(matches!(read, Err(Misread::Record(why)) if !why.is_empty()));
        }
        let look = read(answers(record(version, "{\"format\":2}"), Value::Nil, -2));
        assert_eq!(look.ok().unwrap().fence, 7);
    }

    #[test]
    fn lock_ends_with_its_last_millisecond() {
        let until =
            |pttl| read(answers(Value::Nil, bulk("t"), pttl)).ok().unwrap().lock.map(|lock| lock.until);
        assert_eq!(until(0), Some(Some(Timestamp::from_micros(1_800_014_400_002_000))));
        assert_eq!(until(-1), Some(None));
        assert_eq!(until(-2), None);
    }

    #[test]
    fn lock_that_is_not_a_string_is_a_lock() {
        let look = read(answers(Value::Nil, Value::Int(0), -1)).ok().unwrap();
        assert_eq!(look.lock.unwrap().token.as_ref(), token::NOT_A_STRING);
    }
}
