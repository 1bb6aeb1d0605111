//! Connections of the application.

use std::pin::Pin;

use tokio_postgres::Client;

use crate::job::outcome::BoxError;

/// A source of connections other than a URL: a pool, or your own way to connect.
///
/// Each request borrows a connection, sends one statement over it, and returns it. Keep-alives use it, too: if the
/// connections live on the application's runtime, a job that blocks that runtime for longer than its ttl may lose its
/// lease.
///
/// ```
/// use jobs::store::postgres::{BorrowFuture, BorrowedConnection, ConnectionSource};
/// use tokio_postgres::{Config, NoTls};
///
/// /// Opens a connection for every request.
/// struct PerRequest(Config);
///
/// impl ConnectionSource for PerRequest {
///     fn location(&self) -> String {
///         "postgres://db.internal/shop".to_owned()
///     }
///
///     fn connect(&self) -> BorrowFuture<'_> {
///         Box::pin(async {
///             let (client, connection) = self.0.connect(NoTls).await?;
///             tokio::spawn(connection);
///             Ok(Box::new(client) as Box<dyn BorrowedConnection>)
///         })
///     }
/// }
/// ```
pub trait ConnectionSource: Send + Sync + 'static {
    /// Returns the address of the server for logs and errors, without a password.
    fn location(&self) -> String;

    /// Borrows a connection for one request. Called on the scheduler's runtime, which ends with the scheduler: open
    /// connections that are to outlive it on another runtime. The future is dropped at the connection timeout.
    fn connect(&self) -> BorrowFuture<'_>;
}

/// The future that [`ConnectionSource::connect`] returns.
pub type BorrowFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Box<dyn BorrowedConnection>, BoxError>> + Send + 'a>>;

/// A borrowed connection. Dropping it returns it.
pub trait BorrowedConnection: Send + Sync {
    /// Returns the connection.
    fn client(&self) -> &Client;

    /// Closes the connection instead of returning it, because it broke or did not answer: a statement may still be in
    /// progress on it.
    fn discard(self: Box<Self>);
}

/// A connection that is not shared: dropping it closes it.
impl BorrowedConnection for Client {
    fn client(&self) -> &Client {
        self
    }

    fn discard(self: Box<Self>) {}
}
