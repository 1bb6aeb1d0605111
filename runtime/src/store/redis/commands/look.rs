//! Looks: a few plain commands in one pipeline. Servers that lose a race only look, so this has to be cheap.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, Pipeline, RedisError, RedisResult, ServerErrorKind, Value, from_redis_value};

use super::token;
use crate::Timestamp;
use crate::store::redis::errors;
use crate::store::redis::keys::RedisKeys;
use crate::store::redis::topology::router::Router;
use crate::store::{FORMAT, Lease, Look, Record, SharedLock};

/// A look without the expiry of another program's lock: a lock of this crate expires with the lease in the record. `None` if another
/// program has the lock, or one of ours outlived its lease, as after a slot has moved.
pub(crate) type QuickLook = Option<Look>;

/// A missing answer must never count as "no record".
const TOO_FEW: &str = "the server did not answer every command";

/// Reads keys of one server in one request, and returns a result for each of them.
pub(crate) async fn look_quickly(
    route: Router,
    names: Arc<RedisKeys>,
    keys: Vec<String>,
) -> Vec<RedisResult<QuickLook>> {
    let mut pipeline = Pipeline::with_capacity(2 * keys.len() + 1);
    for key in &keys {
        add(&mut pipeline, &[&["GET", &names.record(key)], &["GET", &names.lock(key)]]);
    }
    // The clock is read last, so that a lock never seems to expire too early.
    add(&mut pipeline, &[&["TIME"]]);
    let answers = match &route {
        // An error about one key, such as a redirection, is not one of the others.
        Router::One(connection) => connection.exchange(|connection| answers_to(connection, &pipeline)).await,
        Router::Many(cluster) => {
            let key = keys.first().map(|key| names.lock(key)).unwrap_or_default();
            cluster.exchange(&key, |connection, asking| send(connection, &pipeline, asking)).await
        }
    };
    let mut answers = match answers {
        Ok(answers) if answers.len() == pipeline.len() => answers.into_iter(),
        Ok(_) => return vec![Err(errors::own(ErrorKind::UnexpectedReturnType, TOO_FEW)); keys.len()],
        Err(error) => return vec![Err(error); keys.len()],
    };
    let time = answers.next_back().unwrap_or(Value::Nil);
    let mut next = || answers.next().unwrap_or(Value::Nil);
    keys.iter().map(|key| read(&names, key, [next(), next(), time.clone()])).collect()
}

/// Number of commands that [`add_look_with_expiry`] adds.
pub(crate) const COMMANDS_WITH_EXPIRY: usize = 4;

/// Adds the commands that read a key, and when its lock expires.
pub(crate) fn add_look_with_expiry(pipeline: &mut Pipeline, keys: &RedisKeys, key: &str) {
    let (lock, record) = (keys.lock(key), keys.record(key));
    add(pipeline, &[&["GET", &record], &["GET", &lock], &["PTTL", &lock], &["TIME"]]);
}

fn add(pipeline: &mut Pipeline, commands: &[&[&str]]) {
    for words in commands {
        let mut command = Cmd::with_capacity(words.len(), words.iter().map(|word| word.len()).sum());
        command.arg(words);
        pipeline.add_command(command);
    }
}

/// Sends commands that only read, and returns one answer for each, which may be an error.
///
/// While a slot moves to another node of a cluster, that node does not yet know all of its keys: what it answers after an
/// `ASK` may be a false "absent". So a read is never sent there, and the caller repeats it.
pub(crate) async fn send(
    connection: MultiplexedConnection,
    pipeline: &Pipeline,
    asking: bool,
) -> RedisResult<Vec<Value>> {
    if asking {
        let moving = "the slot of the key is being moved to another node of the cluster";
        return Err((ErrorKind::Server(ServerErrorKind::TryAgain), "no look", moving.to_owned()).into());
    }
    let answers = answers_to(connection, pipeline).await?;
    // Another node of a cluster has, or may have, the key.
    let redirection = answers.iter().find_map(|answer| match answer {
        Value::ServerError(error) => {
            Some(RedisError::from(error.clone())).filter(RedisError::is_cluster_error)
        }
        _ => None,
    });
    redirection.map_or(Ok(answers), Err)
}

async fn answers_to(mut connection: MultiplexedConnection, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
    connection.send_packed_commands(pipeline, 0, pipeline.len()).await
}

/// Reads a record, a lock and a time.
fn read(keys: &RedisKeys, key: &str, [record, lock, time]: [Value; 3]) -> RedisResult<QuickLook> {
    let (now, record) = (time_of(refuse_error(time)?)?, read_record(keys, key, record)?);
    let lock = match token_of(refuse_error(lock)?) {
        None => None,
        Some(token) => {
            let claimant = record.as_ref().and_then(|record| record.state.claimant.as_ref());
            let is_of_lock = |lease: &&Lease| lease.token == token && lease.until > now;
            let Some(lease) = claimant.filter(is_of_lock) else { return Ok(None) };
            Some(SharedLock { token, until: Some(lease.until) })
        }
    };
    Ok(Some(Record::look(record.as_ref(), lock.as_ref(), now)))
}

/// Reads the answers to [`add_look_with_expiry`], which are also what swap.lua returns if it wrote nothing.
pub(crate) fn read_with_expiry(
    keys: &RedisKeys,
    key: &str,
    answers: impl IntoIterator<Item = Value>,
) -> RedisResult<Look> {
    let [record, lock, pttl, time] = first(answers);
    let now = time_of(refuse_error(time)?)?;
    let (token, pttl) = (token_of(refuse_error(lock)?), refuse_error(pttl)?);
    let lock = token.and_then(|token| with_expiry(token, &pttl, now));
    Ok(Record::look(read_record(keys, key, record)?.as_ref(), lock.as_ref(), now))
}

fn first<const COUNT: usize>(answers: impl IntoIterator<Item = Value>) -> [Value; COUNT] {
    let mut answers = answers.into_iter();
    std::array::from_fn(|_| answers.next().unwrap_or(Value::Nil))
}

fn read_record(keys: &RedisKeys, key: &str, answer: Value) -> RedisResult<Option<Record>> {
    let unreadable = |why: String| errors::unreadable(format!("{} {why}", keys.record(key)));
    match refuse_error(answer)? {
        Value::Nil => Ok(None),
        Value::BulkString(text) => {
            let record = Record::from_first_line(&text).map_err(|error| unreadable(error.to_string()))?;
            if !is_as_written(&text, record.fence) {
                let why = "is not as this crate writes it: the version and a fence below 2^53 come first";
                return Err(unreadable(why.to_owned()));
            }
            Ok(Some(record))
        }
        _ => Err(unreadable(format!(
            "is not a string: an older version (format 1) or another program wrote it, and this version reads format {FORMAT}"
        ))),
    }
}

/// Whether swap.lua finds the version and the fence where it looks for them, and can compute the next fence: a number of Lua
/// is exact up to 2^53.
fn is_as_written(record: &[u8], fence: i64) -> bool {
    let after_head = || {
        let version = record.strip_prefix(b"{\"version\":\"")?;
        let end = version.iter().position(|byte| *byte == b'"')?;
        let fence = version[end..].strip_prefix(b"\",\"fence\":")?;
        let digits = fence.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (digits > 0).then(|| &fence[digits..])
    };
    fence < 1 << 53 && after_head().is_some_and(|state| state.starts_with(b",\"state\":"))
}

/// Returns an error of the server as an error, except that a value is not a string.
fn refuse_error(answer: Value) -> RedisResult<Value> {
    match answer {
        Value::ServerError(error) if error.code() != "WRONGTYPE" => Err(error.into()),
        answer => Ok(answer),
    }
}

/// The token of a lock. A value of another type is another program's lock, too.
fn token_of(value: Value) -> Option<Arc<str>> {
    match value {
        Value::Nil => None,
        Value::BulkString(value) => Some(token::of_value(&value)),
        _ => Some(token::NOT_A_STRING.into()),
    }
}

/// A lock with the expiry that its `PTTL` tells; `None` if it has expired meanwhile.
fn with_expiry(token: Arc<str>, pttl: &Value, now: Timestamp) -> Option<SharedLock> {
    let until = match pttl {
        // It expires at the end of the millisecond that is left last.
        Value::Int(left @ 0..) => {
            let millis = (now.as_micros() / 1000).saturating_add(*left).saturating_add(1);
            Some(Timestamp::from_micros(millis.saturating_mul(1000)))
        }
        Value::Int(-1) => None,
        _ => return None,
    };
    Some(SharedLock { token, until })
}

/// Reads the answer to `TIME`.
pub(crate) fn time_of(answer: Value) -> RedisResult<Timestamp> {
    let (seconds, micros): (i64, i64) = from_redis_value(answer)?;
    Ok(Timestamp::from_micros(seconds.saturating_mul(1_000_000).saturating_add(micros)))
}

pub(crate) fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(text) => std::str::from_utf8(text).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use fuzz::Source;

    use super::*;
    use crate::store::StoreErrorKind;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    /// What is read from such answers.
    fn read(record: Value, lock: Value, pttl: i64) -> RedisResult<Look> {
        let time = Value::Array(vec![bulk("1800014400"), bulk("1999")]);
        super::read_with_expiry(&RedisKeys::new(None), "key", [record, lock, Value::Int(pttl), time])
    }

    #[test]
    fn damaged_record_is_unreadable_and_never_no_record() {
        let record = |version: &str, state: &str| {
            bulk(&format!("{{\"version\":\"{version}\",\"fence\":7,\"state\":{state}}}"))
        };
        let version = "1800014400000000-0123456789abcdef";
        for record in [
            record("7", "{\"format\":3}"),
            record(version, "{\"format\":4}"),
            record(version, "{"),
            bulk(&format!("{{\"version\":\"{version}\",\"fence\":-7,\"state\":{{\"format\":3}}}}")),
            bulk(&format!(
                "{{\"version\":\"{version}\",\"fence\":9007199254740992,\"state\":{{\"format\":3}}}}"
            )),
            bulk(&format!("{{\"fence\":7,\"version\":\"{version}\",\"state\":{{\"format\":3}}}}")),
            bulk(&format!("{{\"version\":\"{version}\",\"fence\": 7,\"state\":{{\"format\":3}}}}")),
            bulk(""),
            Value::Int(0),
        ] {
            let error = read(record, Value::Nil, -2).unwrap_err();
            assert_eq!(errors::kind_of(&error), StoreErrorKind::Unreadable);
            assert!(error.detail().unwrap().len() > "{lock:key}:state ".len());
        }
        let look = read(record(version, "{\"format\":3}"), Value::Nil, -2);
        assert_eq!(look.unwrap().fence, 7);
    }

    #[test]
    fn lock_ends_with_its_last_millisecond() {
        let until = |pttl| read(Value::Nil, bulk("t"), pttl).unwrap().lock.map(|lock| lock.until);
        assert_eq!(until(0), Some(Some(Timestamp::from_micros(1_800_014_400_002_000))));
        assert_eq!(until(-1), Some(None));
        assert_eq!(until(-2), None);
    }

    #[test]
    fn lock_of_the_lease_expires_with_it_and_another_ones_expiry_is_not_known() {
        let state = "{\"format\":3,\"claimant\":{\"token\":\"t\",\"server\":\"a\",\"since\":1800014400000000,\
                     \"until\":1800014460000000,\"ttl\":60000000}}";
        let record =
            format!("{{\"version\":\"1800014400000000-0123456789abcdef\",\"fence\":7,\"state\":{state}}}");
        let at = |seconds: &str, lock: Value| {
            let time = Value::Array(vec![bulk(seconds), bulk("1999")]);
            let look = super::read(&RedisKeys::new(None), "key", [bulk(&record), lock, time]).unwrap();
            look.map(|look| look.lock.map(|lock| lock.until))
        };
        let until = |lock| at("1800014400", lock);
        assert_eq!(until(bulk("t")), Some(Some(Some(Timestamp::from_micros(1_800_014_460_000_000)))));
        assert_eq!(until(Value::Nil), Some(None));
        assert_eq!(until(bulk("u")), None);
        assert_eq!(until(Value::Int(0)), None, "a value that is not a string");
        assert_eq!(at("1800014460", bulk("t")), None, "a lock that outlived its lease");
    }

    #[test]
    fn lock_that_is_not_a_string_is_a_lock() {
        let look = read(Value::Nil, Value::Int(0), -1).unwrap();
        assert_eq!(look.lock.unwrap().token.as_ref(), token::NOT_A_STRING);
    }

    /// Any answer to any command.
    fn any_answer(source: &mut Source, records: &[Vec<u8>]) -> Value {
        match source.below(9) {
            0 => Value::Nil,
            1 => Value::Int(source.number()),
            2 => Value::Okay,
            3 => Value::SimpleString("QUEUED".to_owned()),
            4 => Value::Boolean(true),
            5 => Value::Array((0..source.below(4)).map(|_| any_answer(source, records)).collect()),
            6 => Value::Array(vec![bulk(&source.number().to_string()), bulk(&source.number().to_string())]),
            _ => {
                let record = source.pick(records);
                let length = if source.below(2) == 0 { record.len() } else { source.below(record.len()) };
                Value::BulkString(record[..length].to_vec())
            }
        }
    }

    #[test]
    fn answers_of_any_type_are_read_or_refused_and_only_nil_is_no_record() {
        let (mut source, records) = (Source::new(0), fuzz::read_corpus("states"));
        let (mut read, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let answers: Vec<_> = (0..source.below(6)).map(|_| any_answer(&mut source, &records)).collect();
            let keys = RedisKeys::new(None);
            let without_expiry = super::read(&keys, "key", first(answers.clone()));
            let is_absent = answers.first() == Some(&Value::Nil);
            if let Ok(Some(look)) = without_expiry {
                assert_eq!(look.version.is_none(), is_absent, "{answers:?}");
            }
            match super::read_with_expiry(&keys, "key", answers.clone()) {
                Ok(look) => {
                    read += 1;
                    assert_eq!(look.version.is_none(), is_absent, "{answers:?}");
                }
                Err(_) => refused += 1,
            }
        }
        assert!(read > 100 && refused > 100, "{read} read, {refused} refused");
    }
}
