//! Asks the sentinels for the address of the master, for every new connection.
//!
//! The answer of the majority counts, for safety. A sentinel that was cut off, or has just started, still names the former
//! master, and a former master that was cut off as well reports that it is the master until it learns of its successor.
//! A claim there is lost when the partition heals, and its tick starts a second time. So more than half of the sentinels in the
//! URL have to name the same master: a server that reaches fewer opens no connection, and runs nothing, until it reaches more.
//! redis-rs's own sentinel client takes the first answer.

use redis::aio::MultiplexedConnection;
use redis::{Client, ConnectionAddr, ErrorKind, RedisResult, Role};

use super::quorum::{Agreement, agree};
use super::slots::Node;
use crate::store::net::timeouts::Timeouts;
use crate::store::redis::connection::open;
use crate::store::redis::errors;

pub(crate) struct Sentinels {
    pub(crate) sentinels: Vec<Client>,
    /// The name by which they know the master.
    pub(crate) name: String,
}

impl Sentinels {
    /// Returns the address that more than half of the sentinels name.
    pub(crate) async fn find(&self, timeouts: Timeouts) -> RedisResult<Node> {
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let asked = self.sentinels.iter().map(|sentinel| {
            let (sentinel, question) = (sentinel.clone(), question.clone());
            async move {
                let mut connection = open(&sentinel, timeouts).await?;
                question.query_async::<Option<Node>>(&mut connection).await
            }
        });
        let refusal = match agree(asked.collect(), Agreement::Majority).await {
            Some(Ok(Some(node))) => return Ok(node),
            Some(Err(error)) if errors::kind_of(&error).is_outage() => return Err(error),
            Some(Err(error)) => {
                let why = errors::describe(&error);
                format!("a sentinel refuses: {why}; its own password is `sentinel_password`")
            }
            Some(Ok(None)) | None => format!("no sentinel knows a master named `{}`", self.name),
        };
        Err(errors::own(ErrorKind::MasterNameNotFoundBySentinel, refusal))
    }
}

/// Returns the connection if its server reports that it is the master.
pub(crate) async fn if_master(
    mut connection: MultiplexedConnection,
    address: &ConnectionAddr,
) -> RedisResult<MultiplexedConnection> {
    match redis::cmd("ROLE").query_async(&mut connection).await? {
        Role::Primary { .. } => Ok(connection),
        _ => {
            let why =
                format!("{address}, which the sentinels name, is not the master; a failover is in progress");
            Err(std::io::Error::other(why).into())
        }
    }
}

#[cfg(test)]
mod tests;
