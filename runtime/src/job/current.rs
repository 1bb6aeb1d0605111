//! The current run of a thread.

use std::cell::{Cell, RefCell};

use crate::Run;

thread_local! {
    static CURRENT: RefCell<Option<Run>> = const { RefCell::new(None) };
    static PRETENDED: Cell<usize> = const { Cell::new(0) };
}

/// Asserts that the code runs under a lease: in a job's run, or under a [lock](crate::locks::Lock::run), a
/// slot or a leadership.
///
/// A run is polled only while its lease is valid (unless it has `on_lost = "continue"`), so no other server
/// is past this line at the same time, as far as the [promise](crate#what-is-promised-and-what-is-not) goes;
/// under a [semaphore](crate::locks::Semaphore) at most as many are as there are slots. In a unit test call
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
/// Panics outside of a job's run and of code under a lock.
#[track_caller]
pub fn assert_locked() {
    let locked = PRETENDED.get() > 0 || CURRENT.with_borrow(Option::is_some);
    assert!(
        locked,
        "this code must run under the lease of a job or a lock, but was called outside of one; in a unit test, call \
         `jobs::testing::pretend_locked()` first"
    );
}

/// The run that this thread is polling.
pub(crate) fn get() -> Option<Run> {
    CURRENT.with_borrow(Clone::clone)
}

/// Makes this the current run of this thread until the returned value is dropped.
pub(crate) fn enter(run: &Run) -> CurrentRunGuard {
    CurrentRunGuard(CURRENT.replace(Some(run.clone())))
}

pub(crate) struct CurrentRunGuard(Option<Run>);

impl Drop for CurrentRunGuard {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

#[cfg(any(test, feature = "testing"))]
/// See [`testing::pretend_locked`](crate::testing::pretend_locked).
pub(crate) fn pretend() -> PretendedLock {
    PRETENDED.set(PRETENDED.get() + 1);
    PretendedLock(std::marker::PhantomData)
}

#[cfg(any(test, feature = "testing"))]
pub(crate) struct PretendedLock(std::marker::PhantomData<*const ()>);

#[cfg(any(test, feature = "testing"))]
impl Drop for PretendedLock {
    fn drop(&mut self) {
        PRETENDED.set(PRETENDED.get() - 1);
    }
}
