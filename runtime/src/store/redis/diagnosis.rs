//! Problems with a Redis server that can be found at start.

use std::collections::HashMap;

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, FromRedisValue, RedisResult, Value};

use super::super::Record;
use super::super::finding::{self, Finding, FindingKind, LOOKED_AT};
use super::keys::Keys;

/// Redis before this has no `SET … PXAT`.
const OLDEST: (u32, u32) = (6, 2);

/// So many states are asked for in one round trip.
const BATCH: usize = 1_000;

/// How the store was told to use the server.
#[derive(Clone, Copy)]
pub(super) struct Usage {
    /// Over a client that knows the whole cluster.
    pub(super) whole_cluster: bool,
    /// A claim is acknowledged by so many replicas before it counts.
    pub(super) wait_replicas: usize,
}

/// Checks the server, and the records of these jobs meanwhile: two round trips, and one more for every further
/// thousand jobs.
pub(super) async fn diagnose(
    connection: MultiplexedConnection,
    keys: &Keys,
    jobs: &[String],
    usage: Usage,
) -> RedisResult<Vec<Finding>> {
    let (of_server, of_states) =
        tokio::join!(about_server(connection.clone(), usage), about_states(connection, keys, jobs));
    let mut findings = of_server?;
    findings.extend(of_states?);
    Ok(findings)
}

/// What may not be looked at is nothing to fail for; a connection that breaks is.
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
    let mut command = redis::cmd(words[0]);
    if_allowed(command.arg(&words[1..]).query_async(connection).await)
}

async fn about_states(
    mut connection: MultiplexedConnection,
    keys: &Keys,
    jobs: &[String],
) -> RedisResult<Vec<Finding>> {
    let looked_at = &jobs[..jobs.len().min(LOOKED_AT)];
    let mut unreadable = Vec::new();
    for batch in looked_at.chunks(BATCH) {
        unreadable.extend(unreadable_among(&mut connection, keys, batch).await?);
    }
    Ok(finding::about_states(looked_at, jobs.len(), &unreadable))
}

async fn unreadable_among(
    connection: &mut MultiplexedConnection,
    keys: &Keys,
    jobs: &[String],
) -> RedisResult<Vec<String>> {
    let mut commands = redis::pipe();
    for job in jobs {
        commands.cmd("GET").arg(keys.record(job));
    }
    let answers = connection.send_packed_commands(&commands, 0, commands.len()).await?;
    let unreadable = answers.iter().zip(jobs).filter(|(answer, _)| match answer {
        Value::BulkString(record) => Record::from_first_line(record).is_err(),
        // Other refusals say nothing about it.
        Value::ServerError(error) => error.code() == "WRONGTYPE",
        _ => false,
    });
    Ok(unreadable.map(|(_, job)| job.clone()).collect())
}

async fn about_server(mut connection: MultiplexedConnection, usage: Usage) -> RedisResult<Vec<Finding>> {
    let Some(info) = ask::<String>(&mut connection, &["INFO"]).await? else {
        return Ok(vec![Finding::not_checked(
            "whether the Redis server evicts, persists, has replicas or is one could not be checked: its user may not run \
             INFO; allow it with +info +config|get",
        )]);
    };
    let info = Info::read(&info);
    // Everything else is the primary's business.
    if let Some(finding) = info.not_primary() {
        return Ok(vec![finding]);
    }
    let mut findings: Vec<_> = [
        info.too_old(),
        info.cannot_wait(usage),
        info.evicts(),
        info.loses_on_failover(usage),
        info.lacks_replicas(usage),
    ]
    .into_iter()
    .flatten()
    .collect();
    if info.is("aof_enabled", "0") {
        let save: Option<HashMap<String, String>> = ask(&mut connection, &["CONFIG", "GET", "save"]).await?;
        findings.extend(about_persistence(save.as_ref().and_then(|save| save.get("save"))));
    }
    if info.is("cluster_enabled", "1") && !usage.whole_cluster {
        let cluster: Option<String> = ask(&mut connection, &["CLUSTER", "INFO"]).await?;
        findings.push(about_cluster(cluster.as_deref().map(Info::read).as_ref()));
    }
    Ok(findings)
}

/// There is no append-only file; `save` says when snapshots are taken.
fn about_persistence(save: Option<&String>) -> Option<Finding> {
    match save.map(String::is_empty) {
        Some(false) => None,
        Some(true) => Some(Finding::warning(
            FindingKind::NotDurable,
            "the Redis server keeps nothing on disk, neither an append-only file nor snapshots: after a restart a tick that has run may \
             run once more within its grace, and pauses are forgotten; set appendonly to yes",
        )),
        None => Some(Finding::not_checked(
            "the Redis server has no append-only file, and whether it takes snapshots could not be checked: its user may not run CONFIG \
             GET",
        )),
    }
}

fn about_cluster(cluster: Option<&Info<'_>>) -> Finding {
    let nodes = cluster.and_then(|cluster| cluster.number("cluster_size"));
    let why = "the Redis server is one node of a cluster, and this client does not follow the others";
    let remedy = "write redis+cluster:// instead of redis://";
    match nodes {
        Some(nodes @ 2..) => Finding::error(
            FindingKind::ClusterNode,
            format!("{why}: of {nodes} nodes the jobs of {} would never run; {remedy}", nodes - 1),
        ),
        _ => Finding::warning(
            FindingKind::ClusterNode,
            format!("{why}: as soon as there are others, their jobs do not run; {remedy}"),
        ),
    }
}

/// What `INFO` says, by name.
struct Info<'a>(HashMap<&'a str, &'a str>);

impl<'a> Info<'a> {
    fn read(text: &'a str) -> Self {
        Self(text.lines().filter_map(|line| line.trim_end().split_once(':')).collect())
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.0.get(name) == Some(&value)
    }

    fn number(&self, name: &str) -> Option<u32> {
        self.0.get(name)?.parse().ok()
    }

    fn not_primary(&self) -> Option<Finding> {
        let of = |name| self.0.get(name).copied().unwrap_or("unknown");
        let message = match *self.0.get("role")? {
            "master" => return None,
            "slave" => format!(
                "the Redis server is a replica of {}:{}, and a replica cannot decide who runs a job; point the URL to the primary",
                of("master_host"),
                of("master_port")
            ),
            "active-replica" => "the server is an active replica: it and its peer both accept writes, so each could let another \
                                 server run the same tick; set active-replica to no, and point the URL to the primary"
                .to_owned(),
            role => format!(
                "the server's role is `{role}`, and only a primary can decide who runs a job; point the URL to the primary"
            ),
        };
        Some(Finding::error(FindingKind::NotPrimary, message))
    }

    fn is_keydb(&self) -> bool {
        self.0.contains_key("mvcc_depth")
    }

    fn cannot_wait(&self, usage: Usage) -> Option<Finding> {
        (usage.wait_replicas > 0 && self.is_keydb()).then(|| {
            Finding::error(
                FindingKind::Other,
                "wait_replicas does not work with KeyDB: it does not answer commands that are sent behind a WAIT, so claims \
                 would time out; remove wait_replicas from the URL, or use Redis or Valkey",
            )
        })
    }

    fn too_old(&self) -> Option<Finding> {
        // Other servers that speak the protocol say which version of Redis they resemble, and know more.
        let of_others =
            |name: &&str| name.ends_with("_version") && !["redis_version", "gcc_version"].contains(name);
        let version = self.0.get("redis_version").filter(|_| !self.0.keys().any(of_others))?;
        let mut parts = version.split('.').map(|part| part.parse().ok());
        let known = parts.next()??;
        ((known, parts.next()??) < OLDEST).then(|| {
            Finding::error(
                FindingKind::TooOld,
                format!("Redis {version} lacks `SET … PXAT`, by which locks are set; use Redis 6.2 or newer"),
            )
        })
    }

    fn evicts(&self) -> Option<Finding> {
        let policy = *self.0.get("maxmemory_policy")?;
        let harm = if policy == "noeviction" {
            return None;
        } else if policy.starts_with("volatile-") {
            "it may delete locks: a job's is put back by its holder, but of a lock by hand, a slot and what was done once \
             everything may be gone, and then a second one gets in"
        } else {
            "it may delete what it knows of a job, and then a tick can start a second time, and pauses are forgotten"
        };
        Some(Finding::warning(
            FindingKind::Evicts,
            format!(
                "the maxmemory-policy of the Redis server is {policy}: when its memory is full {harm}; set it to noeviction, or use a server \
                 that is not a cache"
            ),
        ))
    }

    fn lacks_replicas(&self, usage: Usage) -> Option<Finding> {
        let replicas = self.number("connected_slaves")?;
        let wanted = usage.wait_replicas;
        (usize::try_from(replicas).is_ok_and(|replicas| replicas < wanted)).then(|| {
            Finding::warning(
                FindingKind::TooFewReplicas,
                format!(
                    "wait_replicas={wanted}, but the Redis server has {replicas} replica(s): nothing starts before there are \
                     enough; start them, or lower wait_replicas in the URL"
                ),
            )
        })
    }

    fn loses_on_failover(&self, usage: Usage) -> Option<Finding> {
        let replicas = self.number("connected_slaves").filter(|replicas| *replicas > 0)?;
        (usage.wait_replicas == 0).then(|| {
            Finding::warning(
                FindingKind::LosesOnFailover,
                format!(
                    "the Redis server has {replicas} replica(s) and does not wait for them: a failover can lose the newest claim, and \
                     then a second server starts the same tick; add wait_replicas=1 to the URL, and guard the writes of \
                     jobs by `run.fence()`"
                ),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use redis::ServerErrorKind;

    use super::*;

    fn is_too_old(info: &str) -> bool {
        Info::read(info).too_old().is_some()
    }

    #[test]
    fn a_version_below_six_point_two_is_too_old() {
        for (version, too_old) in
            [("5.0.14", true), ("6.0.16", true), ("6.2.0", false), ("7.0.15", false), ("10.1.0", false)]
        {
            let info = format!("# Server\r\nredis_version:{version}\r\ngcc_version:12.2.0\r\n");
            assert_eq!(is_too_old(&info), too_old, "{version}");
        }
    }

    #[test]
    fn a_server_of_another_kind_is_not_judged_by_the_version_it_resembles() {
        assert!(!is_too_old("redis_version:4.0.0\r\nkvrocks_version:2.9.0\r\n"));
        assert!(!is_too_old("redis_version:unstable\r\n"));
    }

    #[test]
    fn only_a_master_is_a_primary() {
        let finding = |info| Info::read(info).not_primary().map(|finding| (finding.kind, finding.message));
        assert_eq!(finding("role:master\r\n"), None);
        for (info, words) in [
            ("role:slave\r\nmaster_host:db1\r\nmaster_port:6379\r\n", "replica of db1:6379"),
            ("role:active-replica\r\n", "active replica: it and its peer both accept writes"),
            ("role:sentinel\r\n", "role is `sentinel`"),
        ] {
            let (kind, message) = finding(info).expect(info);
            assert!(kind == FindingKind::NotPrimary && message.contains(words), "{message}");
        }
    }

    #[test]
    fn keydb_is_refused_only_with_wait_replicas() {
        let keydb = "role:master\r\nredis_version:6.3.4\r\n# KeyDB\r\nmvcc_depth:0\r\n";
        let refused = |info, wait_replicas| {
            Info::read(info).cannot_wait(Usage { whole_cluster: false, wait_replicas }).is_some()
        };
        assert!(refused(keydb, 1) && !refused(keydb, 0));
        assert!(!refused("role:master\r\nredis_version:7.0.15\r\n", 1));
    }

    #[test]
    fn claims_that_wait_for_replicas_survive_a_failover() {
        let info = Info::read("role:master\r\nconnected_slaves:2\r\n");
        let waiting = Usage { wait_replicas: 1, whole_cluster: false };
        assert!(info.loses_on_failover(Usage { whole_cluster: false, wait_replicas: 0 }).is_some());
        assert!(info.loses_on_failover(waiting).is_none() && info.lacks_replicas(waiting).is_none());
        let more = Usage { wait_replicas: 3, whole_cluster: false };
        assert!(info.lacks_replicas(more).is_some_and(|finding| finding.kind == FindingKind::TooFewReplicas));
    }

    #[test]
    fn what_is_refused_is_not_an_error_and_a_broken_connection_is() {
        let refused: RedisResult<()> = Err((ErrorKind::Server(ServerErrorKind::NoPerm), "NOPERM").into());
        assert_eq!(if_allowed(refused), Ok(None));
        let broken: RedisResult<()> = Err((ErrorKind::Io, "gone").into());
        assert!(if_allowed(broken).is_err());
    }
}
