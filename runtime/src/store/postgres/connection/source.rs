//! Connections that the application lends.

use std::pin::Pin;

use tokio_postgres::Client;

use crate::job::outcome::BoxError;

/// Where a store's connections come from if not from a URL: a pool, or a way to connect of your own.
///
/// Each step borrows a connection, sends one statement over it, and gives it back. Leases are kept alive over it too,
/// by a thread of the scheduler's own: if connections live on the application's runtime, a job that blocks that runtime
/// for longer than its ttl may lose its lease.
///
/// ```
/// use jobs::store::postgres::{Lending, Session, Source};
/// use tokio_postgres::{Config, NoTls};
///
/// /// A connection for every step.
/// struct Anew(Config);
///
/// impl Source for Anew {
///     fn location(&self) -> String {
///         "postgres://db.internal/shop".to_owned()
///     }
///
///     fn connect(&self) -> Lending<'_> {
///         Box::pin(async {
///             let (client, connection) = self.0.connect(NoTls).await?;
///             tokio::spawn(connection);
///             Ok(Box::new(client) as Box<dyn Session>)
///         })
///     }
/// }
/// ```
pub trait ConnectionSource: Send + Sync + 'static {
    /// Where its connections lead, for logs and errors; never with a password.
    fn location(&self) -> String;

    /// Lends a connection for one step. Called on the scheduler's own runtime, which ends with the scheduler: a
    /// connection that is to outlive it is opened on another. Dropped when it takes longer than a step may wait.
    fn connect(&self) -> BorrowFuture<'_>;
}

/// What [`ConnectionSource::connect`] returns.
pub type BorrowFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Box<dyn BorrowedConnection>, BoxError>> + Send + 'a>>;

/// A connection that was lent, and is given back by being dropped.
pub trait BorrowedConnection: Send + Sync {
    /// The connection.
    fn client(&self) -> &Client;

    /// Called instead of giving it back, when nobody waits for its answer any longer or it broke: it must not be lent to
    /// anybody again, because a statement may still be under way on it.
    fn discard(self: Box<Self>);
}

/// A connection that is nobody else's: it is closed when it is dropped.
impl BorrowedConnection for Client {
    fn client(&self) -> &Client {
        self
    }

    fn discard(self: Box<Self>) {}
}
