//! The time in which this process leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::history::RunOutcome;
use crate::locks::LockError;
use crate::locks::guard::Guard;

/// The leadership of this process, from its election until it is lost or resigned. Cheap to clone.
///
/// It is lost here before the store lets another process lead: work that stops when it is [lost](Leadership::lost) never
/// runs beside the work of another leader.
#[derive(Clone, Debug)]
pub struct Leadership {
    guard: Arc<Guard>,
    has_resigned: Arc<AtomicBool>,
}

impl Leadership {
    pub(crate) fn new(guard: Guard) -> Self {
        Self { guard: Arc::new(guard), has_resigned: Arc::default() }
    }

    /// A number greater than that of every earlier leader of this key. Pass it to writes, as
    /// [`Run::fence`](crate::Run::fence).
    pub fn fence(&self) -> i64 {
        self.guard.fence()
    }

    /// Whether this leadership is lost, or in doubt. Needs no round trip to the store. It is final as
    /// [`Guard::is_lost`] is.
    pub fn is_lost(&self) -> bool {
        self.guard.is_lost()
    }

    /// Waits until this leadership is lost.
    pub async fn lost(&self) {
        self.guard.lost().await;
    }

    /// Ends this leadership, and lets another process lead at once. Every clone is lost before the store releases the key.
    ///
    /// The [candidate](crate::locks::Candidate) stays one, but waits for 1–2 s, so that other candidates go first.
    pub async fn resign(self) -> Result<(), LockError> {
        self.has_resigned.store(true, Ordering::SeqCst);
        self.guard.end(RunOutcome::Succeeded).await
    }

    pub(crate) fn is_over(&self) -> bool {
        self.guard.is_over()
    }

    pub(crate) fn has_resigned(&self) -> bool {
        self.has_resigned.load(Ordering::SeqCst)
    }

    pub(crate) fn guard(&self) -> &Guard {
        &self.guard
    }
}
