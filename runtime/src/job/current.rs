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
/// [`testing::pretend_locked`](crate::testing::pretend_locked) first.
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
pub(crate) fn enter(run: &Run) -> CurrentRunGuard {
    CurrentRunGuard(CURRENT.replace(Some(run.clone())))
}

pub(crate) struct CurrentRunGuard(Option<Run>);

impl Drop for CurrentRunGuard {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// See [`testing::pretend_locked`](crate::testing::pretend_locked).
pub(crate) fn pretend() -> PretendedLock {
    PRETENDED.set(PRETENDED.get() + 1);
    PretendedLock(std::marker::PhantomData)
}

pub(crate) struct PretendedLock(std::marker::PhantomData<*const ()>);

impl Drop for PretendedLock {
    fn drop(&mut self) {
        PRETENDED.set(PRETENDED.get() - 1);
    }
}
