//! Notes: a sorted set of each topic's names by expiry, and a hash of the texts.

use std::collections::HashMap;
use std::time::Duration;

use redis::{FromRedisValue, RedisResult, Value};

use super::super::{Note, Notes, StoreError, Topic};
use super::{RedisStore, look, script};
use crate::Timestamp;

/// Scores are floats, exact up to 2^53: an instant of today plus this stays below.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

impl RedisStore {
    pub(super) async fn send_note(
        &self,
        topic: Topic,
        note: &Note,
        ttl: Duration,
    ) -> Result<Timestamp, StoreError> {
        let keys = self.keys.of_notes(topic);
        let ttl = u64::try_from(ttl.min(LONGEST).as_micros()).unwrap_or(u64::MAX);
        let talk = |connection, asking| {
            script::PUT_NOTE.run(connection, asking, None, |command| {
                command.arg(2).arg(&keys).arg(&note.name).arg(note.text.as_ref()).arg(ttl);
            })
        };
        let answer = self.route.exchange(&keys[0], talk).await;
        let answer = answer.map_err(|error| self.trouble("put_note", &error, Some(&script::PUT_NOTE)))?;
        look::time_of(answer.value).ok_or_else(|| self.unreadable("put_note", "the answer makes no sense"))
    }

    pub(super) async fn read_notes(&self, topic: Topic) -> Result<Notes, StoreError> {
        let keys = self.keys.of_notes(topic);
        let mut commands = redis::pipe();
        commands.cmd("TIME").cmd("ZRANGE").arg(&keys[0]).arg(0).arg(-1).arg("WITHSCORES");
        commands.cmd("HGETALL").arg(&keys[1]);
        let answers =
            self.route.exchange(&keys[0], |connection, asking| look::send(connection, &commands, asking));
        let read = |answers: Vec<Value>| -> RedisResult<Option<Notes>> {
            let mut answers = answers.into_iter().map(Value::extract_error);
            let mut next = || answers.next().unwrap_or(Ok(Value::Nil));
            let Some(now) = look::time_of(next()?) else { return Ok(None) };
            let expiries: HashMap<String, f64> = HashMap::from_redis_value(next()?)?;
            let texts: Vec<(String, String)> = Vec::from_redis_value(next()?)?;
            Ok(Some(unexpired(now, &expiries, texts)))
        };
        let notes = answers.await.and_then(read).map_err(|error| self.trouble("notes", &error, None))?;
        notes.ok_or_else(|| self.unreadable("notes", "the answer makes no sense"))
    }
}

fn unexpired(now: Timestamp, expiries: &HashMap<String, f64>, texts: Vec<(String, String)>) -> Notes {
    #[expect(clippy::cast_precision_loss, reason = "exact until the year 2255")]
    let counts = |name: &String| expiries.get(name).is_some_and(|expiry| *expiry > now.as_micros() as f64);
    let texts = texts.into_iter().filter(|(name, _)| counts(name));
    let mut notes: Vec<_> = texts.map(|(name, text)| Note { name, text: text.into() }).collect();
    notes.sort_by(|one, other| one.name.cmp(&other.name));
    Notes { now, notes }
}
