//! Reads run and skip records: of one key, or of many in one pipeline per server.

use redis::aio::MultiplexedConnection;
use redis::{Pipeline, RedisError, RedisResult, Value, from_redis_value};
use serde::de::DeserializeOwned;

use crate::store::redis::RedisStore;
use crate::store::redis::errors;
use crate::store::redis::topology::cluster::Master;
use crate::store::{JobRecord, JobRecords};

/// Commands for each key.
const COMMANDS: usize = 2;

impl RedisStore {
    async fn read_records(&self, key: &str, newest: usize) -> RedisResult<JobRecords> {
        let mut commands = Pipeline::with_capacity(COMMANDS);
        self.add_read(&mut commands, key, newest);
        self.records_in(key, self.send_reads(key, &commands).await?)
    }

    pub(crate) async fn read_records_of(
        &self,
        keys: &[String],
        newest: usize,
    ) -> RedisResult<Vec<JobRecords>> {
        if let [key] = keys {
            return Ok(vec![self.read_records(key, newest).await?]);
        }
        let mut found: Vec<Option<JobRecords>> = vec![None; keys.len()];
        for master in self.route.masters().await? {
            let is_there = |key: &(usize, &String)| master.has(&self.keys.lock(key.1));
            let there: Vec<_> = keys.iter().enumerate().filter(is_there).collect();
            self.read_from(&master, &there, newest, &mut found).await?;
        }
        let mut records = Vec::with_capacity(keys.len());
        for (key, found) in keys.iter().zip(found) {
            // It is at another node by now.
            records.push(match found {
                Some(found) => found,
                None => self.read_records(key, newest).await?,
            });
        }
        Ok(records)
    }

    /// Reads the records of keys of one server, in one pipeline.
    async fn read_from(
        &self,
        master: &Master,
        keys: &[(usize, &String)],
        newest: usize,
        found: &mut [Option<JobRecords>],
    ) -> RedisResult<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let mut commands = Pipeline::with_capacity(keys.len() * COMMANDS);
        for (_, key) in keys {
            self.add_read(&mut commands, key, newest);
        }
        let talk = async |mut connection: MultiplexedConnection| {
            connection.send_packed_commands(&commands, 0, commands.len()).await
        };
        let mut answers = master.connection.exchange(talk).await?.into_iter();
        for (index, key) in keys {
            match self.records_in(key, answers.by_ref().take(COMMANDS).collect()) {
                Ok(records) => found[*index] = Some(records),
                Err(error) if RedisError::is_cluster_error(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn add_read(&self, commands: &mut Pipeline, key: &str, newest: usize) {
        let [.., runs, skips] = self.keys.of_job(key);
        let last = i64::try_from(newest).map_or(-1, |newest| newest - 1);
        for list in [&runs, &skips] {
            // The range from 0 to -1 is the whole list.
            let (first, last) = if newest == 0 { (1, 0) } else { (0, last) };
            commands.cmd("LRANGE").arg(list).arg(first).arg(last);
        }
    }

    fn records_in(&self, key: &str, answers: Vec<Value>) -> RedisResult<JobRecords> {
        let [.., runs, skips] = self.keys.of_job(key);
        let mut answers = answers.into_iter();
        let mut next = || answers.next().unwrap_or(Value::Nil);
        Ok(JobRecords { runs: read_entries(&runs, next())?, skips: read_entries(&skips, next())? })
    }
}

/// Reads a list of run or skip records.
fn read_entries<T: DeserializeOwned>(list: &str, answer: Value) -> RedisResult<Vec<T>> {
    let entries: Vec<Vec<u8>> = from_redis_value(answer.extract_error()?)?;
    let read: Result<_, _> = entries.iter().map(JobRecord::from_json).collect();
    read.map_err(|error| errors::unreadable(format!("an entry of {list} {error}")))
}
