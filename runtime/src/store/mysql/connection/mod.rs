//! Connections to the server: one for requests that read, one for those that write; or borrowed ones.
//!
//! A connection carries one request at a time. One of the store's own sets everything that its statements depend on for its
//! session, whatever the server's defaults.
//!
//! A transaction is never committed by the message that begins it: MariaDB 10.11 skips some statements of a message whose client
//! has closed the connection, executes later ones, and would commit a part. So the client commits once it has every
//! answer, and a transaction whose client is gone is rolled back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, Error, OptsBuilder, Row, Value};
use tokio::sync::Mutex;
use tokio::time::timeout;

use borrowed::PoolSource;

use super::encryption::Encryption;
use super::errors::{MysqlError, MysqlResult};
use super::statements::reply;
use crate::store::StoreErrorKind;
use crate::store::net::connection::{Connect, ConnectionFault, SharedConnection};
pub(super) use crate::store::net::sql_rows::TextRow;
use crate::store::net::timeouts::Timeouts;
use crate::util::turns::Turns;

pub(crate) mod borrowed;
#[cfg(feature = "sqlx")]
pub(crate) mod sqlx;

/// - `READ COMMITTED`: no locks of gaps, so new keys do not wait for each other, and each look shows the newest commit.
/// - Without `autocommit` a look would begin a transaction, and later ones show the same snapshot.
/// - After `COMMIT` with another `completion_type` a transaction, or the end of the session, would follow.
/// - A row or table that is locked by another session is waited for as briefly as the server can.
const SESSION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SET SESSION TRANSACTION READ WRITE;
    SET SESSION autocommit = 1, completion_type = 0, foreign_key_checks = 1, unique_checks = 1,
      sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', sql_safe_updates = 0, sql_select_limit = 18446744073709551615,
      time_zone = '+00:00', innodb_lock_wait_timeout = 1, lock_wait_timeout = 1, wait_timeout = 28800";

#[derive(Clone)]
pub(super) struct MysqlConnection {
    transport: MysqlTransport,
    pub(super) timeouts: Timeouts,
}

#[derive(Clone)]
enum MysqlTransport {
    Own {
        server: Box<MysqlConnector>,
        reading: Arc<SharedConnection<MysqlConnector>>,
        writing: Arc<SharedConnection<MysqlConnector>>,
    },
    Lent(PoolSource),
}

/// End a transaction.
pub(super) const COMMIT: &str = "COMMIT";
pub(super) const ROLLBACK: &str = "ROLLBACK";

/// Follows the end of a transaction: between its messages the server waits for a moment only.
const AFTER: &str = "; SET SESSION wait_timeout = 28800";

/// The last statement of a transaction's end.
const READ_ONLY: &str = "SELECT @@global.read_only";

/// Returns `COMMIT` or `ROLLBACK`, by the rows of the message that began the transaction.
pub(super) type TransactionEnding = fn(&[TextRow]) -> &'static str;

/// Which connection a message takes: a look does not wait for a swap that waits.
#[derive(Clone, Copy)]
pub(super) enum Lane {
    Read,
    Write,
}

impl MysqlConnection {
    pub(super) fn new(options: OptsBuilder, encryption: Encryption, timeouts: Timeouts) -> Self {
        let server = MysqlConnector { options, encryption, patience: timeouts.connect };
        let [reading, writing] = [(); 2].map(|()| Arc::new(SharedConnection::new()));
        Self { transport: MysqlTransport::Own { server: Box::new(server), reading, writing }, timeouts }
    }

    pub(super) fn lent_by(source: PoolSource) -> Self {
        Self { transport: MysqlTransport::Lent(source), timeouts: Timeouts::default() }
    }

    pub(super) fn with_timeouts(mut self, connect: Duration, response: Duration) -> Self {
        self.timeouts = Timeouts { connect, response };
        if let MysqlTransport::Own { server, .. } = &mut self.transport {
            server.patience = connect;
        }
        self
    }

    /// Sends a message, then its ending, and returns the rows of the former: only if no statement failed, the commit included.
    pub(super) async fn send(
        &self,
        lane: Lane,
        text: &str,
        ending: Option<TransactionEnding>,
        patience: Duration,
    ) -> MysqlResult<Vec<TextRow>> {
        let exchange = Exchange { text, ending };
        let (server, shared) = match (&self.transport, lane) {
            (MysqlTransport::Own { server, reading, .. }, Lane::Read) => (server, reading),
            (MysqlTransport::Own { server, writing, .. }, Lane::Write) => (server, writing),
            (MysqlTransport::Lent(source), _) => {
                return source.send(lane, exchange, Timeouts { response: patience, ..self.timeouts }).await;
            }
        };
        loop {
            let sent = shared.exchange(server, |line| async move { line.send(exchange, patience).await });
            match sent.await {
                Ok(Some(rows)) => return Ok(rows),
                Ok(None) => {}
                Err(error) => {
                    if error.is_not_primary() {
                        self.forget();
                    }
                    return Err(error);
                }
            }
        }
    }
}

impl MysqlConnection {
    /// Drops the connections of both lanes: the address may lead to another server by now.
    fn forget(&self) {
        if let MysqlTransport::Own { reading, writing, .. } = &self.transport {
            reading.forget();
            writing.forget();
        }
    }
}

/// An open connection.
pub(super) struct OpenSession {
    connection: Mutex<Conn>,
    turns: Turns,
    /// Whether a message was left without an answer. No other may be sent after it: a transaction may be open.
    is_abandoned: AtomicBool,
    /// Whether a caller had the turn and found it abandoned. The turn may not be free for long: callers hand it to each other.
    is_dead: AtomicBool,
}

impl OpenSession {
    /// Returns `None`, and sends nothing, if the connection was abandoned while this message waited for its turn.
    async fn send(&self, exchange: Exchange<'_>, patience: Duration) -> MysqlResult<Option<Vec<TextRow>>> {
        let _turn = self.turns.take().await;
        if self.is_abandoned.swap(true, Ordering::SeqCst) {
            self.is_dead.store(true, Ordering::SeqCst);
            return Ok(None);
        }
        let mut connection = self.connection.lock().await;
        let asked = timeout(patience, exchange.over(&mut *connection, AFTER)).await;
        let result = asked.unwrap_or_else(|_| Err(MysqlError::timed_out("no answer", patience)));
        let is_usable = match &result {
            Ok(_) => true,
            // The statements after the one that failed were not executed: the transaction is still open.
            Err(error) if error.is_answer() => {
                let rollback = format!("{ROLLBACK}{AFTER}");
                matches!(
                    timeout(patience, MessageConnection::query(&mut *connection, &rollback)).await,
                    Ok(Ok(_))
                )
            }
            Err(_) => false,
        };
        self.is_abandoned.store(!is_usable, Ordering::SeqCst);
        result.map(Some)
    }
}

/// A message, and the one that ends its transaction.
#[derive(Clone, Copy)]
struct Exchange<'a> {
    text: &'a str,
    ending: Option<TransactionEnding>,
}

impl Exchange<'_> {
    /// Returns the rows of the first message.
    async fn over(
        self,
        connection: &mut impl MessageConnection,
        after_transaction: &str,
    ) -> MysqlResult<Vec<TextRow>> {
        let rows = connection.query(self.text).await?;
        let Some(ending) = self.ending.map(|ending| ending(&rows)) else { return Ok(rows) };
        let ended = connection.query(&format!("{ending}{after_transaction}; {READ_ONLY}")).await;
        if ending == COMMIT {
            let ended = ended.map_err(MysqlError::during_commit)?;
            // A server that was demoted meanwhile still lets some users commit.
            reply::check_primary(reply::first(&ended)?, 0)?;
        } else {
            ended?;
        }
        Ok(rows)
    }
}

/// A connection that carries one message of SQL at a time.
trait MessageConnection: Send {
    /// Sends a message, and returns the rows of all its statements.
    fn query(&mut self, text: &str) -> impl Future<Output = MysqlResult<Vec<TextRow>>> + Send;
}

impl MessageConnection for Conn {
    async fn query(&mut self, text: &str) -> MysqlResult<Vec<TextRow>> {
        let mut answers = self.query_iter(text).await?;
        let mut rows = Vec::new();
        while !answers.is_empty() {
            for row in answers.collect::<Row>().await? {
                rows.push(row.unwrap().into_iter().map(text_of).collect());
            }
        }
        answers.drop_result().await?;
        Ok(rows)
    }
}

fn text_of(value: Value) -> Option<String> {
    match value {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        other => Some(other.as_sql(true)),
    }
}

/// Opens connections to a server.
#[derive(Clone)]
pub(super) struct MysqlConnector {
    options: OptsBuilder,
    encryption: Encryption,
    patience: Duration,
}

impl MysqlConnector {
    async fn open(self) -> MysqlResult<Conn> {
        let Self { options, encryption, .. } = self;
        let plain = options.clone();
        let opened = match encryption {
            Encryption::Never => Conn::new(plain).await,
            Encryption::Always(tls) => Conn::new(options.ssl_opts(tls)).await,
            Encryption::IfOffered(tls) => match Conn::new(options.ssl_opts(tls)).await {
                Err(Error::Driver(DriverError::NoClientSslFlagFromServer)) => Conn::new(plain).await,
                opened => opened,
            },
        };
        let mut connection = opened?;
        MessageConnection::query(&mut connection, SESSION)
            .await
            .map_err(|error| error.during("the session cannot be set up"))?;
        Ok(connection)
    }
}

impl Connect for MysqlConnector {
    type Connection = Arc<OpenSession>;
    type Error = MysqlError;

    async fn connect(self) -> MysqlResult<Arc<OpenSession>> {
        let patience = self.patience;
        let Ok(opened) = timeout(patience, self.open()).await else {
            return Err(MysqlError::timed_out("no connection", patience)
                .with_advice("check host and port, and that no firewall is between"));
        };
        Ok(Arc::new(OpenSession {
            connection: Mutex::new(opened?),
            turns: Turns::default(),
            is_abandoned: AtomicBool::new(false),
            is_dead: AtomicBool::new(false),
        }))
    }

    fn abandoned() -> MysqlError {
        MysqlError::new(StoreErrorKind::Unreachable, "the connection was given up before it was open")
    }

    fn fault(error: &MysqlError) -> ConnectionFault {
        error.fault()
    }

    fn is_closed(line: &Arc<OpenSession>) -> bool {
        // While a message waits for its answer the turn is taken, and it is not known yet whether it is answered.
        let is_abandoned = line.is_abandoned.load(Ordering::SeqCst) && line.turns.is_free();
        line.is_dead.load(Ordering::SeqCst) || is_abandoned
    }
}
