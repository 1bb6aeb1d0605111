//! The master of a replicated server, as its sentinels name it. They are asked anew for every connection.
//!
//! What most of them name counts, for safety. A sentinel that was cut off, or has just started, still names the former
//! master; and a former master that was cut off as well reports that it is the master until it learns of its successor. A
//! claim there is forgotten when the partition heals, and its tick starts a second time. redis-rs's own sentinel client
//! takes the first answer, whichever it is; a server that reaches most sentinels must not be led there by the minority.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, ErrorKind, RedisError, RedisResult, Role};

use super::super::tls::Certificates;
use super::address::Access;
use super::connection::client;
use super::quorum::agree;
use super::slots::Node;
use super::trouble;

#[derive(Clone)]
pub(super) struct Sentinels(Arc<Inner>);

struct Inner {
    sentinels: Vec<Client>,
    name: String,
    master: Access,
}

impl Sentinels {
    pub(super) fn new(
        sentinels: &[ConnectionInfo],
        name: &str,
        master: &ConnectionInfo,
        certificates: &Arc<Certificates>,
    ) -> Result<Self, String> {
        let sentinels = sentinels.iter().map(|info| client(info.clone(), certificates));
        let (sentinels, master) = (sentinels.collect::<Result<_, _>>()?, Access::like(master, certificates)?);
        Ok(Self(Arc::new(Inner { sentinels, name: name.to_owned(), master })))
    }

    /// A connection to what most sentinels name, if that reports that it is the master.
    pub(super) async fn dial(&self, config: &AsyncConnectionConfig) -> RedisResult<MultiplexedConnection> {
        let master = self.find(config).await?;
        let mut connection = master.get_multiplexed_async_connection_with_config(config).await?;
        match redis::cmd("ROLE").query_async(&mut connection).await? {
            Role::Primary { .. } => Ok(connection),
            _ => {
                let address = master.get_connection_info().addr();
                let why =
                    format!("{address}, which the sentinels name, is not the master; a failover goes on");
                Err(std::io::Error::other(why).into())
            }
        }
    }

    /// The client of what most sentinels name.
    pub(super) async fn find(&self, config: &AsyncConnectionConfig) -> RedisResult<Client> {
        let Inner { sentinels, name, master } = &*self.0;
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
        let asked = sentinels.iter().map(|sentinel| {
            let (sentinel, config, question) = (sentinel.clone(), config.clone(), question.clone());
            async move {
                let mut connection = sentinel.get_multiplexed_async_connection_with_config(&config).await?;
                question.query_async::<Option<Node>>(&mut connection).await
            }
        });
        match agree(asked.collect()).await {
            Some(Ok(Some(node))) => master.client(&node),
            Some(Err(error)) if trouble::kind_of(&error).may_pass() => Err(error),
            Some(Err(error)) => {
                let why = trouble::describe(&error, None);
                Err(refusal(format!("a sentinel refuses: {why}; its own password is `sentinel_password`")))
            }
            Some(Ok(None)) | None => Err(refusal(format!("no sentinel knows a master named `{name}`"))),
        }
    }
}

fn refusal(why: String) -> RedisError {
    (ErrorKind::MasterNameNotFoundBySentinel, "refused", why).into()
}

#[cfg(test)]
mod tests;
