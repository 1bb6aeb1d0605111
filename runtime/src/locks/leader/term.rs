//! A term of office.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::history::RunOutcome;
use crate::locks::LockError;
use crate::locks::guard::Guard;

/// This process leads, from its election until the term is lost or it resigns. Cheap to clone.
///
/// A term ends here before the store lets anybody else lead: work that stops when the term is
/// [lost](Term::lost) never runs beside another leader's.
#[derive(Clone, Debug)]
pub struct Term(Arc<Office>);

#[derive(Debug)]
struct Office {
    guard: Guard,
    resigned: AtomicBool,
}

impl Term {
    pub(crate) fn new(guard: Guard) -> Self {
        Self(Arc::new(Office { guard, resigned: AtomicBool::new(false) }))
    }

    /// A number greater than that of every earlier term of this key. Send it along with writes, as
    /// [`Run::fence`](crate::Run::fence).
    pub fn fence(&self) -> i64 {
        self.0.guard.fence()
    }

    /// Whether this process cannot prove that it leads, as far as this term goes. Costs no trip to the store. It is final
    /// as [`Guard::is_lost`] is.
    pub fn is_lost(&self) -> bool {
        self.0.guard.is_lost()
    }

    /// Waits until this term is over.
    pub async fn lost(&self) {
        self.0.guard.lost().await;
    }

    /// Ends this term and lets another process lead at once. Every clone of it is lost before the store hears of it.
    ///
    /// The campaign goes on, but leaves the others a second or two to come first.
    pub async fn resign(self) -> Result<(), LockError> {
        self.0.resigned.store(true, Ordering::SeqCst);
        self.guard().end(self.guard().ending(RunOutcome::Succeeded)).await
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.guard.is_over()
    }

    pub(crate) fn has_resigned(&self) -> bool {
        self.0.resigned.load(Ordering::SeqCst)
    }

    pub(crate) fn guard(&self) -> &Guard {
        &self.0.guard
    }
}
