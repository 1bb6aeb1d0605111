//! Notes: a sorted set of each topic's names by expiry, and a hash of the texts.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use redis::{RedisResult, Value, from_redis_value};

use super::{look, script};
use crate::Timestamp;
use crate::store::redis::RedisStore;
use crate::store::{Note, Notes, Topic};

/// Scores are floats, exact up to 2^53: an instant of today plus this stays below.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

impl RedisStore {
    pub(crate) async fn send_note(&self, topic: Topic, note: &Note, ttl: Duration) -> RedisResult<Timestamp> {
        let keys = self.keys.of_notes(topic);
        let ttl = u64::try_from(ttl.min(LONGEST).as_micros()).unwrap_or(u64::MAX);
        let talk = |connection, asking| {
            script::PUT_NOTE.run(connection, asking, None, |command| {
                command.arg(2).arg(&keys).arg(&note.name).arg(note.text.as_ref()).arg(ttl);
            })
        };
        let (time, _) = self.route.exchange(&keys[0], talk).await?;
        look::time_of(time)
    }

    pub(crate) async fn read_notes(&self, topic: Topic) -> RedisResult<Notes> {
        let keys = self.keys.of_notes(topic);
        let mut commands = redis::pipe();
        commands.cmd("TIME").cmd("ZRANGE").arg(&keys[0]).arg(0).arg(-1).arg("WITHSCORES");
        commands.cmd("HGETALL").arg(&keys[1]);
        let talk = |connection, asking| look::send(connection, &commands, asking);
        let answers = self.route.exchange(&keys[0], talk).await?;
        let mut answers = answers.into_iter().map(Value::extract_error);
        let mut next = || answers.next().unwrap_or(Ok(Value::Nil));
        let now = look::time_of(next()?)?;
        let expiries: HashMap<String, f64> = from_redis_value(next()?)?;
        let texts: BTreeMap<String, String> = from_redis_value(next()?)?;
        #[expect(clippy::cast_precision_loss, reason = "exact until the year 2255")]
        let counts = |name: &String| expiries.get(name).is_some_and(|until| *until > now.as_micros() as f64);
        let texts = texts.into_iter().filter(|(name, _)| counts(name));
        Ok(Notes { now, notes: texts.map(|(name, text)| Note { name, text: text.into() }).collect() })
    }
}
