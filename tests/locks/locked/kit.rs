//! A server for each test, on a memory store of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use jobs::Jobs;
use tokio::sync::Semaphore;

pub async fn server(store: &str) -> Jobs {
    jobs::builder().without_jobs().url(format!("memory://locked-{store}")).start_all().await.unwrap()
}

/// Counts the callers that enter, and holds each until it is opened.
#[derive(Clone, Default)]
pub struct Gate(Arc<Inner>);

struct Inner {
    entered: AtomicU32,
    arrivals: Semaphore,
    open: Semaphore,
}

impl Default for Inner {
    fn default() -> Self {
        Self { entered: AtomicU32::new(0), arrivals: Semaphore::new(0), open: Semaphore::new(0) }
    }
}

impl Gate {
    pub async fn pass(&self) {
        self.0.entered.fetch_add(1, Ordering::SeqCst);
        self.0.arrivals.add_permits(1);
        self.0.open.acquire().await.unwrap().forget();
    }

    /// Waits until one more caller has entered.
    pub async fn arrival(&self) {
        self.0.arrivals.acquire().await.unwrap().forget();
    }

    /// Lets one caller leave.
    pub fn open(&self) {
        self.0.open.add_permits(1);
    }

    pub fn entered(&self) -> u32 {
        self.0.entered.load(Ordering::SeqCst)
    }
}
