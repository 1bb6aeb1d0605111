//! Problems with a Redis server that can be found at start.

use std::collections::HashMap;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, FromRedisValue, RedisResult, Value};

use super::super::Record;
use super::RedisStore;
use super::topology::router::Router;
use crate::observe::finding;
use crate::observe::finding::{Finding, FindingKind, LOOKED_AT};
use FindingKind::{
    ClusterNode, Evicts, LosesOnFailover, NotDurable, NotPrimary, Other, TooFewReplicas, TooOld,
};

/// Redis before this has no `SET … PXAT`.
const OLDEST: (u32, u32) = (6, 2);

/// Number of states that are read in one round trip.
const BATCH: usize = 1_000;

impl RedisStore {
    /// Checks each server, and the records of those jobs that it has. The same finding is reported once.
    pub(super) async fn find_problems(&self, jobs: &[String]) -> RedisResult<Vec<Finding>> {
        let mut findings = Vec::new();
        for master in self.route.masters().await? {
            let is_there = |job: &&String| master.has(&self.keys.lock(job));
            let jobs: Vec<_> = jobs.iter().filter(is_there).cloned().collect();
            // Two round trips, and one more for every further thousand jobs.
            let talk = async |connection: MultiplexedConnection| {
                tokio::try_join!(self.about_server(connection.clone()), self.about_states(connection, &jobs))
            };
            let (of_server, of_states) = master.connection.exchange(talk).await?;
            for finding in of_server.into_iter().chain(of_states) {
                if !findings.contains(&finding) {
                    findings.push(finding);
                }
            }
        }
        Ok(findings)
    }

    async fn about_states(
        &self,
        mut connection: MultiplexedConnection,
        jobs: &[String],
    ) -> RedisResult<Vec<Finding>> {
        let looked_at = &jobs[..jobs.len().min(LOOKED_AT)];
        let mut unreadable = Vec::new();
        for batch in looked_at.chunks(BATCH) {
            let mut commands = redis::pipe();
            for job in batch {
                commands.cmd("GET").arg(self.keys.record(job));
            }
            let answers = connection.send_packed_commands(&commands, 0, commands.len()).await?;
            let found = answers.iter().zip(batch).filter(|(record, _)| is_unreadable(record));
            unreadable.extend(found.map(|(_, job)| job.clone()));
        }
        Ok(finding::about_states(looked_at, jobs.len(), &unreadable))
    }

    async fn about_server(&self, mut connection: MultiplexedConnection) -> RedisResult<Vec<Finding>> {
        let Some(info) = ask::<String>(&mut connection, &["INFO"]).await? else {
            return Ok(vec![Finding::not_checked(
                "eviction, persistence and replicas of the Redis server could not be checked: its user may not run INFO; \
                allow it with +info +config|get",
            )]);
        };
        let info = RedisInfo::read(&info);
        // The other checks are for primaries.
        if let Some(message) = info.not_primary() {
            return Ok(vec![Finding::error(NotPrimary, message)]);
        }
        let mut findings = info.about_primary(self.wait_replicas);
        if info.get("aof_enabled") == "0" {
            match ask::<HashMap<String, String>>(&mut connection, &["CONFIG", "GET", "save"]).await? {
                Some(save) if save.get("save").is_some_and(|save| !save.is_empty()) => {}
                Some(save) if save.contains_key("save") => findings.push(Finding::warning(
                    NotDurable,
                    "the Redis server keeps nothing on disk, neither an append-only file nor snapshots: after a restart a tick \
                    that has run may run again within its grace, and pauses are lost; set appendonly to yes",
                )),
                _ => findings.push(Finding::not_checked(
                    "the Redis server has no append-only file, and its snapshots could not be checked: its user may not run \
                    CONFIG GET",
                )),
            }
        }
        if info.get("cluster_enabled") == "1" && matches!(self.route, Router::One(_)) {
            let cluster: Option<String> = ask(&mut connection, &["CLUSTER", "INFO"]).await?;
            let nodes =
                cluster.and_then(|cluster| RedisInfo::read(&cluster).number("cluster_size")).unwrap_or(1);
            let (judge, harm): (fn(_, _) -> _, _) = if nodes > 1 {
                (Finding::error, format!("of {nodes} nodes the jobs of {} would never run", nodes - 1))
            } else {
                (Finding::warning, "as soon as there are others, their jobs do not run".to_owned())
            };
            findings.push(judge(
                ClusterNode,
                format!(
                    "the Redis server is one node of a cluster, and this client does not follow the others: {harm}; write \
                     redis+cluster:// instead of redis://"
                ),
            ));
        }
        Ok(findings)
    }
}

/// Returns `None` if the user may not run the command. A broken connection is an error.
fn if_allowed<T>(answer: RedisResult<T>) -> RedisResult<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn ask<T: FromRedisValue>(
    connection: &mut MultiplexedConnection,
    words: &[&str],
) -> RedisResult<Option<T>> {
    if_allowed(redis::cmd(words[0]).arg(&words[1..]).query_async(connection).await)
}

fn is_unreadable(record: &Value) -> bool {
    match record {
        Value::BulkString(text) => Record::from_first_line(text).is_err(),
        // Other errors do not concern the record.
        Value::ServerError(error) => error.code() == "WRONGTYPE",
        _ => false,
    }
}

/// The fields of `INFO`, by name.
struct RedisInfo<'a>(HashMap<&'a str, &'a str>);

impl<'a> RedisInfo<'a> {
    fn read(text: &'a str) -> Self {
        Self(text.lines().filter_map(|line| line.trim_end().split_once(':')).collect())
    }

    fn get(&self, name: &str) -> &'a str {
        self.0.get(name).copied().unwrap_or_default()
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.get(name).parse().ok()
    }

    /// Returns the reason if this server cannot grant leases.
    fn not_primary(&self) -> Option<String> {
        match *self.0.get("role")? {
            "master" => None,
            "slave" => Some(format!(
                "the Redis server is a replica of {}:{}, and a replica cannot grant leases; point the URL to the primary",
                self.get("master_host"),
                self.get("master_port")
            )),
            "active-replica" => Some(
                "the server is an active replica: it and its peer both accept writes, so both could grant the same tick; set \
                active-replica to no, and point the URL to the primary"
                    .to_owned(),
            ),
            role => Some(format!(
                "the server's role is `{role}`, and only a primary can grant leases; point the URL to the primary"
            )),
        }
    }

    /// Returns the findings about a primary, if this number of replicas is waited for.
    fn about_primary(&self, wanted: usize) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Some(version) = self.too_old() {
            let message =
                format!("Redis {version} lacks `SET … PXAT`, by which locks are set; use Redis 6.2 or newer");
            findings.push(Finding::error(TooOld, message));
        }
        // Only KeyDB has this field.
        if wanted > 0 && self.0.contains_key("mvcc_depth") {
            findings.push(Finding::error(
                Other,
                "wait_replicas does not work with KeyDB: it does not answer commands that are sent behind a WAIT, so claims \
                 would time out; remove wait_replicas from the URL, or use Redis or Valkey",
            ));
        }
        let policy = self.get("maxmemory_policy");
        let harm = if policy.starts_with("volatile-") {
            "it may delete locks: the holder restores that of a job, but manual locks, slots and done marks are lost, and \
            then a second holder gets in"
        } else {
            "it may delete the record of a job, and then a tick can start a second time, and pauses are lost"
        };
        if !["", "noeviction"].contains(&policy) {
            findings.push(Finding::warning(
                Evicts,
                format!(
                    "the maxmemory-policy of the Redis server is {policy}: when its memory is full {harm}; set it to noeviction, \
                     or use a server that is not a cache"
                ),
            ));
        }
        match self.number("connected_slaves") {
            Some(replicas @ 1..) if wanted == 0 => findings.push(Finding::warning(
                LosesOnFailover,
                format!(
                    "the Redis server has {replicas} replica(s) and does not wait for them: a failover can lose the newest claim, \
                     and then a second server starts the same tick; add wait_replicas=1 to the URL, and guard the writes of \
                     jobs by `run.fence()`"
                ),
            )),
            Some(replicas) if replicas < wanted => findings.push(Finding::warning(
                TooFewReplicas,
                format!(
                    "wait_replicas={wanted}, but the Redis server has {replicas} replica(s): nothing starts before there are \
                     enough; start them, or lower wait_replicas in the URL"
                ),
            )),
            _ => {}
        }
        findings
    }

    /// Returns the version if it is too old. Other servers with the same protocol report an old version of Redis, and know
    /// more commands.
    fn too_old(&self) -> Option<&'a str> {
        let of_others =
            |name: &&str| name.ends_with("_version") && !["redis_version", "gcc_version"].contains(name);
        let version = self.get("redis_version");
        let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
        let known = (parts.next()??, parts.next()??);
        (known < OLDEST && !self.0.keys().any(of_others)).then_some(version)
    }
}

#[cfg(test)]
mod tests;
