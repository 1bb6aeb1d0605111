//! Connections of a `deadpool-postgres` pool.

use deadpool_postgres::{Object, Pool, PoolError, TimeoutType};
use tokio::runtime::Handle;
use tokio_postgres::Client;
use tokio_util::task::AbortOnDropHandle;

use super::source::{BorrowFuture, BorrowedConnection, ConnectionSource};

pub(crate) struct DeadpoolSource {
    pub(crate) pool: Pool,
    /// The pool's connections outlive the scheduler, so they are opened on the application's runtime.
    pub(crate) app: Handle,
}

impl ConnectionSource for DeadpoolSource {
    fn location(&self) -> String {
        "the application's PostgreSQL pool".to_owned()
    }

    fn connect(&self) -> BorrowFuture<'_> {
        let pool = self.pool.clone();
        // A caller that stops waiting leaves the pool's queue.
        let getting = AbortOnDropHandle::new(self.app.spawn(async move { pool.get().await }));
        Box::pin(async {
            match getting.await {
                Ok(Ok(object)) => Ok(Box::new(object) as Box<dyn BorrowedConnection>),
                Ok(Err(PoolError::Timeout(TimeoutType::Wait))) => {
                    let size = self.pool.status().max_size;
                    Err(format!("all {size} connections of the pool are in use; make it larger, or give the jobs their own pool").into())
                }
                Ok(Err(PoolError::Closed)) => Err("the pool has been closed".into()),
                Ok(Err(error)) => Err(error.into()),
                Err(_) => Err("the application's runtime has ended".into()),
            }
        })
    }
}

impl BorrowedConnection for Object {
    fn client(&self) -> &Client {
        self
    }

    fn discard(self: Box<Self>) {
        drop(Object::take(*self));
    }
}
