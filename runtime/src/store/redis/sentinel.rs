//! The master of a replicated server, as its sentinels name it. They are asked anew for every connection.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, ErrorKind, ProtocolVersion, RedisConnectionInfo,
    RedisError, RedisResult, Role,
};

use super::super::tls::Certificates;
use super::connection::client;
use super::parameters::Parameters;
use super::quorum::agree;
use super::{address, trouble};

#[derive(Clone)]
pub(super) struct Sentinels(Arc<Inner>);

struct Inner {
    sentinels: Vec<ConnectionInfo>,
    name: String,
    /// How to enter the master, wherever it is.
    master: ConnectionInfo,
    certificates: Arc<Certificates>,
}

impl Sentinels {
    /// The addresses are the sentinels', with the master's user, password and database.
    pub(super) fn new(addresses: &[ConnectionInfo], name: &str, parameters: &Parameters) -> Self {
        let mut own = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP2);
        if let Some(user) = &parameters.sentinel_username {
            own = own.set_username(user);
        }
        if let Some(password) = &parameters.sentinel_password {
            own = own.set_password(password);
        }
        let sentinels = addresses.iter().map(|info| info.clone().set_redis_settings(own.clone()));
        let (sentinels, master) = (sentinels.collect(), addresses[0].clone());
        Self(Arc::new(Inner { sentinels, name: name.to_owned(), master, certificates: Arc::default() }))
    }

    /// The same, with certificates for the sentinels and the master. What is wrong with them is told at once.
    pub(super) fn with_certificates(&self, certificates: &Arc<Certificates>) -> Result<Self, String> {
        let (certificates, inner) = (certificates.clone(), &self.0);
        client(inner.master.clone(), &certificates)?;
        let (sentinels, name, master) = (inner.sentinels.clone(), inner.name.clone(), inner.master.clone());
        Ok(Self(Arc::new(Inner { sentinels, name, master, certificates })))
    }

    fn client(&self, info: ConnectionInfo) -> RedisResult<Client> {
        Ok(client(info, &self.0.certificates).map_err(std::io::Error::other)?)
    }

    /// A connection to what most sentinels name, and what says of itself that it is the master.
    pub(super) async fn dial(&self, config: &AsyncConnectionConfig) -> RedisResult<MultiplexedConnection> {
        let (master, host, port) = self.find(config).await?;
        let mut connection = master.get_multiplexed_async_connection_with_config(config).await?;
        match redis::cmd("ROLE").query_async(&mut connection).await? {
            Role::Primary { .. } => Ok(connection),
            _ => Err(std::io::Error::other(format!(
                "{host}:{port}, which the sentinels name, is not the master; a failover goes on"
            ))
            .into()),
        }
    }

    /// What connects to the master, and where it is.
    pub(super) async fn find(&self, config: &AsyncConnectionConfig) -> RedisResult<(Client, String, u16)> {
        let (host, port) = self.master(config).await?;
        let master = self.client(address::at(&self.0.master, &host, port))?;
        Ok((master, host, port))
    }

    async fn master(&self, config: &AsyncConnectionConfig) -> RedisResult<(String, u16)> {
        let asked = (0..self.0.sentinels.len()).map(|index| {
            let (sentinels, config) = (self.clone(), config.clone());
            async move { sentinels.ask(index, &config).await }
        });
        match agree(asked.collect()).await {
            Some(Ok(Some(master))) => Ok(master),
            Some(Err(error)) if trouble::is_transient(&error) => Err(error),
            Some(Err(error)) => {
                let why = trouble::describe(&error, None);
                Err(refusal(format!("a sentinel refuses: {why}; its own password is `sentinel_password`")))
            }
            Some(Ok(None)) | None => {
                Err(refusal(format!("no sentinel knows a master named `{}`", self.0.name)))
            }
        }
    }

    async fn ask(&self, index: usize, config: &AsyncConnectionConfig) -> RedisResult<Option<(String, u16)>> {
        let sentinel = self.client(self.0.sentinels[index].clone())?;
        let mut connection = sentinel.get_multiplexed_async_connection_with_config(config).await?;
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.0.name);
        question.query_async(&mut connection).await
    }
}

fn refusal(why: String) -> RedisError {
    (ErrorKind::MasterNameNotFoundBySentinel, "refused", why).into()
}
