//! The one connection of a store: shared by all steps, and opened anew after trouble.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, RedisResult, ServerErrorKind};
use tokio::sync::watch;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Opens the connection when it is needed, once for all callers who wait for it.
pub(super) struct Connection {
    client: Client,
    config: AsyncConnectionConfig,
    current: Mutex<Option<Opening>>,
    /// How often the server has answered: a connection that answers others is not to blame for one caller who
    /// could not wait.
    answers: AtomicU64,
}

/// A connection that is being opened, is open, or could not be opened. The channel is its identity.
type Opening = watch::Receiver<Option<RedisResult<MultiplexedConnection>>>;

impl Connection {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            config: config(CONNECT_TIMEOUT, RESPONSE_TIMEOUT),
            current: Mutex::default(),
            answers: AtomicU64::new(0),
        }
    }

    pub(super) fn with_timeouts(self, connect: Duration, response: Duration) -> Self {
        Self { config: config(connect, response), ..self }
    }

    /// Runs one exchange over the shared connection, and gives the connection up if it is to blame.
    pub(super) async fn exchange<T, F>(&self, talk: impl FnOnce(MultiplexedConnection) -> F) -> RedisResult<T>
    where
        F: Future<Output = RedisResult<T>>,
    {
        let mut opening = self.opening();
        let opened = match opening.wait_for(Option::is_some).await {
            Ok(result) => result.clone(),
            Err(_) => None,
        };
        // Whoever leaves without an answer, by an error or by no longer waiting, has no reason to trust
        // the connection, unless it answered somebody else meanwhile.
        let answers = self.answers.load(Ordering::Relaxed);
        let mut suspicion = Suspicion { of: &opening, on: self, answers, justified: true, proven: false };
        let result = match opened.unwrap_or_else(|| Err(abandoned())) {
            Ok(connection) => talk(connection).await,
            Err(error) => Err(error),
        };
        suspicion.justified = result.as_ref().is_err_and(blames_connection);
        suspicion.proven = result.as_ref().is_err_and(|error| !error.is_timeout());
        if result.is_ok() {
            self.answers.fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    fn opening(&self) -> Opening {
        let mut current = self.current();
        if let Some(opening) = current.as_ref() {
            return opening.clone();
        }
        let (opened, opening) = watch::channel(None);
        let (client, config) = (self.client.clone(), self.config.clone());
        // In a task of its own, so that it survives a caller who gives up.
        tokio::spawn(async move {
            let result = client.get_multiplexed_async_connection_with_config(&config).await;
            let _nobody_waits_any_longer = opened.send(Some(result));
        });
        *current = Some(opening.clone());
        opening
    }

    fn give_up(&self, opening: &Opening) {
        let mut current = self.current();
        if current.as_ref().is_some_and(|current| current.same_channel(opening)) {
            *current = None;
        }
    }

    fn current(&self) -> MutexGuard<'_, Option<Opening>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Suspicion<'a> {
    of: &'a Opening,
    on: &'a Connection,
    answers: u64,
    justified: bool,
    proven: bool,
}

impl Drop for Suspicion<'_> {
    fn drop(&mut self) {
        let silent = self.on.answers.load(Ordering::Relaxed) == self.answers;
        if self.justified && (self.proven || silent) {
            self.on.give_up(self.of);
        }
    }
}

fn config(connect: Duration, response: Duration) -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_connection_timeout(Some(connect)).set_response_timeout(Some(response))
}

/// The runtime that opened the connection went away before it was open.
fn abandoned() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::ConnectionAborted).into()
}

/// Whether another connection might fare better: this one is broken or silent, or leads to a server that
/// is no longer, or not yet, the right one.
fn blames_connection(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Server(kind) => {
            matches!(
                kind,
                ServerErrorKind::ReadOnly | ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown
            )
        }
        ErrorKind::Extension => error.code() == Some("NOAUTH"),
        _ => true,
    }
}
