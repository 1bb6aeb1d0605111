//! The run that the code on this thread is in.

use std::cell::{Cell, RefCell};

use crate::Run;

thread_local! {
    static CURRENT: RefCell<Option<Run>> = const { RefCell::new(None) };
    static PRETENDED: Cell<usize> = const { Cell::new(0) };
}

/// For code that must run under a lease: panics outside of a job's run, and of code under a
/// [lock](crate::locks::Lock::run) and its like.
///
/// A run is polled only while its lease is proved (unless it has `on_lost = "continue"`), so code that gets past this
/// line is the only one of its kind, as far as the [promise](crate#what-is-promised-and-what-is-not) goes; under a
/// [semaphore](crate::locks::Semaphore) it is one of as many as there are slots. In a unit test call
/// `jobs::testing::pretend_locked` first.
///
/// ```should_panic
/// fn close_the_books() {
///     jobs::assert_locked();
/// }
///
/// close_the_books(); // neither in a job nor under a lock
/// ```
///
/// # Panics
///
/// Outside of a job's run and of code under a lock.
#[track_caller]
pub fn assert_locked() {
    let locked = PRETENDED.get() > 0 || CURRENT.with_borrow(Option::is_some);
    assert!(
        locked,
        "this code must run under the lease of a job or a lock, and was called outside of one; in a unit test call \
         `jobs::testing::pretend_locked()` first"
    );
}

/// The run that this thread polls at the moment.
pub(crate) fn get() -> Option<Run> {
    CURRENT.with_borrow(Clone::clone)
}

/// From now until the returned value is dropped this thread is in the run.
pub(crate) fn enter(run: &Run) -> Entered {
    Entered(CURRENT.replace(Some(run.clone())))
}

pub(crate) struct Entered(Option<Run>);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

#[cfg(any(test, feature = "testing"))]
/// See [`testing::pretend_locked`](crate::testing::pretend_locked).
pub(crate) fn pretend() -> Pretended {
    PRETENDED.set(PRETENDED.get() + 1);
    Pretended(std::marker::PhantomData)
}

#[cfg(any(test, feature = "testing"))]
pub(crate) struct Pretended(std::marker::PhantomData<*const ()>);

#[cfg(any(test, feature = "testing"))]
impl Drop for Pretended {
    fn drop(&mut self) {
        PRETENDED.set(PRETENDED.get() - 1);
    }
}
