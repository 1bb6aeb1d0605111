//! Connections to the server: one of the store's own, or borrowed ones.
//!
//! A connection sends one message at a time. A pooler may hand the answers that a client did not wait for to another
//! client, if the first one had sent several messages: PgBouncer 1.18 does.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_core::Stream;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client, Config, SimpleQueryMessage};

use super::super::{StoreErrorKind, Subscription};
use super::errors::{PostgresError, Result};
use crate::store::net::borrowed::ALL_IN_USE;
use crate::store::net::connection::{Connect, ConnectionFault, SharedConnection};
pub(super) use crate::store::net::sql_rows::TextRow;
use crate::store::net::subscriptions::Subscriptions;
use crate::store::net::timeouts::Timeouts;
use crate::util::turns::Turns;
use encryption::Encryption;
use source::{BorrowedConnection, ConnectionSource};

#[cfg(feature = "deadpool-postgres")]
pub(crate) mod deadpool;
pub(crate) mod encryption;
pub(crate) mod source;
#[cfg(feature = "sqlx")]
pub(crate) mod sqlx;
#[cfg(feature = "tls")]
pub(crate) mod tls;

/// Fails inside a transaction that an earlier message has begun: `now()` is when the transaction began, and
/// `statement_timestamp()` when the message arrived.
const CHECK: &str = "SELECT WHERE 1 / (now() = statement_timestamp())::int = 0";

/// The channel of all notifications. Each names its schema, namespace and key.
const LISTEN: &str = "LISTEN jobs_freed";

#[derive(Clone)]
pub(super) struct PostgresConnection {
    way: Transport,
    pub(super) timeouts: Timeouts,
}

#[derive(Clone)]
enum Transport {
    Own {
        server: PostgresConnector,
        shared: Arc<SharedConnection<PostgresConnector>>,
        /// The connection of all subscriptions. The first of them opens it.
        listening: Arc<SharedConnection<PostgresConnector>>,
    },
    Lent(Arc<dyn ConnectionSource>),
    #[cfg(feature = "sqlx")]
    Sqlx(sqlx::SqlxSource),
}

impl PostgresConnection {
    pub(super) fn new(config: Config, encryption: Encryption, timeouts: Timeouts) -> Self {
        let server = PostgresConnector { config: Arc::new(config), encryption, patience: timeouts.connect };
        let [shared, listening] = [(); 2].map(|()| Arc::new(SharedConnection::new()));
        Self { way: Transport::Own { server, shared, listening }, timeouts }
    }

    pub(super) fn lent_by(source: impl ConnectionSource) -> Self {
        Self { way: Transport::Lent(Arc::new(source)), timeouts: Timeouts::default() }
    }

    #[cfg(feature = "sqlx")]
    pub(super) fn lent_by_sqlx(source: sqlx::SqlxSource) -> Self {
        Self { way: Transport::Sqlx(source), timeouts: Timeouts::default() }
    }

    pub(super) fn with_timeouts(mut self, connect: Duration, response: Duration) -> Self {
        self.timeouts = Timeouts { connect, response };
        if let Transport::Own { server, .. } = &mut self.way {
            Arc::make_mut(&mut server.config).connect_timeout(connect);
            server.patience = connect;
        }
        self
    }

    pub(super) fn is_own(&self) -> bool {
        matches!(self.way, Transport::Own { .. })
    }

    /// Sends one message, and returns the rows of its answer. The timeout begins when the message is sent.
    pub(super) async fn send(&self, text: &str, patience: Duration) -> Result<Vec<TextRow>> {
        match &self.way {
            Transport::Own { server, shared, .. } => loop {
                let sent = shared.exchange(server, |line| async move { line.send(text, patience).await });
                match sent.await {
                    Ok(Some(rows)) => return Ok(rows),
                    Ok(None) => {}
                    Err(error) => return Err(error),
                }
            },
            Transport::Lent(source) => {
                let text = as_own_transaction(text);
                let mut lent = BorrowGuard(Some(borrow(source.as_ref(), self.timeouts.connect).await?));
                let result = match &lent.0 {
                    Some(session) => query(session.client(), &text, patience).await,
                    None => Ok(Vec::new()),
                };
                if result.as_ref().err().is_none_or(|error| error.fault() == ConnectionFault::None) {
                    drop(lent.0.take());
                }
                result
            }
            #[cfg(feature = "sqlx")]
            Transport::Sqlx(source) => {
                source.send(as_own_transaction(text), Timeouts { response: patience, ..self.timeouts }).await
            }
        }
    }

    /// Subscribes to a payload.
    ///
    /// Returns `None` if the store borrows its connections: they have to be returned.
    pub(super) async fn listen(&self, payload: String) -> Result<Option<Subscription>> {
        let Transport::Own { server, listening, .. } = &self.way else { return Ok(None) };
        loop {
            let (payload, patience) = (payload.clone(), self.timeouts.response);
            let talk = |line: Arc<OpenConnection>| async move {
                // It may be repeated, and shows that the server still answers.
                let Some(_confirmed) = line.send(LISTEN, patience).await? else { return Ok(None) };
                let ended = || {
                    PostgresError::new(StoreErrorKind::Unreachable, "the connection that listens has ended")
                };
                Ok(Some(line.subscriptions.upgrade().ok_or_else(ended)?.subscribe(payload).0))
            };
            if let Some(listener) = listening.exchange(server, talk).await? {
                return Ok(Some(listener));
            }
        }
    }
}

/// Makes a message fail if the application has lent a connection on which it has not ended a transaction: the message would be
/// committed or undone with it.
///
/// Every message begins with a setting of its transaction. Some settings are not allowed after a query, so the check follows.
fn as_own_transaction(text: &str) -> String {
    let (setting, rest) = text.split_once(';').unwrap_or((text, ""));
    format!("{setting}; {CHECK};{rest}")
}

async fn query(client: &Client, text: &str, patience: Duration) -> Result<Vec<TextRow>> {
    // A message without an answer may have been applied, or be applied later.
    let late = |_| PostgresError::timed_out("no answer", patience);
    timeout(patience, whole_answer(client, text)).await.map_err(late)?
}

/// Reads an answer up to its end. After an error the server still reports that it is ready, and a message that is sent before
/// counts as a second one.
async fn whole_answer(client: &Client, text: &str) -> Result<Vec<TextRow>> {
    let mut answer = pin!(client.simple_query_raw(text).await?);
    let (mut rows, mut failed) = (Vec::new(), None);
    while let Some(message) = poll_fn(|context| answer.as_mut().poll_next(context)).await {
        match message {
            Ok(SimpleQueryMessage::Row(row)) => {
                rows.push((0..row.len()).map(|index| row.get(index).map(str::to_owned)).collect());
            }
            Ok(_) => {}
            Err(error) if failed.is_none() && error.as_db_error().is_some() => failed = Some(error),
            // The connection has ended: after an error of the server, that is the reason.
            Err(error) => return Err(failed.unwrap_or(error).into()),
        }
    }
    failed.map_or(Ok(rows), |error| Err(error.into()))
}

async fn borrow(source: &dyn ConnectionSource, patience: Duration) -> Result<Box<dyn BorrowedConnection>> {
    match timeout(patience, source.connect()).await {
        Ok(lent) => lent.map_err(PostgresError::from),
        Err(_) => Err(PostgresError::timed_out("no connection was lent", patience).with_advice(ALL_IN_USE)),
    }
}

/// Discards a borrowed connection unless it was taken out before: a statement may still be in progress on it.
struct BorrowGuard(Option<Box<dyn BorrowedConnection>>);

impl Drop for BorrowGuard {
    fn drop(&mut self) {
        if let Some(session) = self.0.take() {
            session.discard();
        }
    }
}

/// An open connection of the store's own.
pub(super) struct OpenConnection {
    client: Client,
    /// The subscriptions that it notifies.
    subscriptions: Weak<Subscriptions>,
    turns: Turns,
    /// Whether a message was left without an answer. No other may be sent after it.
    is_abandoned: AtomicBool,
    /// Whether a caller had the turn and found it abandoned. The turn may not be free for long: callers hand it to each other.
    is_dead: AtomicBool,
}

impl OpenConnection {
    /// Returns `None`, and sends nothing, if the connection was abandoned while this message waited for its turn.
    async fn send(&self, text: &str, patience: Duration) -> Result<Option<Vec<TextRow>>> {
        let _turn = self.turns.take().await;
        if self.is_abandoned.swap(true, Ordering::SeqCst) {
            self.is_dead.store(true, Ordering::SeqCst);
            return Ok(None);
        }
        let result = query(&self.client, text, patience).await;
        let is_answered = result.as_ref().err().is_none_or(|error| error.fault() == ConnectionFault::None);
        self.is_abandoned.store(!is_answered, Ordering::SeqCst);
        result.map(Some)
    }
}

/// Opens connections to a server.
#[derive(Clone)]
pub(super) struct PostgresConnector {
    config: Arc<Config>,
    encryption: Encryption,
    patience: Duration,
}

impl Connect for PostgresConnector {
    type Connection = Arc<OpenConnection>;
    type Error = PostgresError;

    async fn connect(self) -> Result<Arc<OpenConnection>> {
        let Ok(connected) = timeout(self.patience, self.config.connect(self.encryption)).await else {
            return Err(PostgresError::timed_out("no connection", self.patience)
                .with_advice("check host and port, and that no firewall is between"));
        };
        let (client, mut connection) = connected?;
        let subscriptions = Arc::<Subscriptions>::default();
        let line = OpenConnection {
            client,
            subscriptions: Arc::downgrade(&subscriptions),
            turns: Turns::default(),
            is_abandoned: AtomicBool::new(false),
            is_dead: AtomicBool::new(false),
        };
        // The end of the task ends all exchanges and subscriptions.
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    subscriptions.notify(notification.payload());
                }
            }
        });
        Ok(Arc::new(line))
    }

    fn abandoned() -> PostgresError {
        PostgresError::new(StoreErrorKind::Unreachable, "the connection was given up before it was open")
    }

    fn fault(error: &PostgresError) -> ConnectionFault {
        error.fault()
    }

    fn is_closed(line: &Arc<OpenConnection>) -> bool {
        // While a message waits for its answer the turn is taken, and it is not known yet whether it is answered.
        let is_abandoned = line.is_abandoned.load(Ordering::SeqCst) && line.turns.is_free();
        line.client.is_closed() || line.is_dead.load(Ordering::SeqCst) || is_abandoned
    }
}
