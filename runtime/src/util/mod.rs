//! Helpers that do not depend on jobs.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

pub(crate) mod backoff;
pub mod clock;
pub(crate) mod duration;
pub(crate) mod signal;
pub(crate) mod spawner;
pub(crate) mod token;
pub(crate) mod watched;

/// A random number that no other caller gets, in this process or another one. Not for secrets.
pub(crate) fn random() -> u64 {
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    SEED.hash_one(DRAWN.fetch_add(1, Ordering::Relaxed))
}

/// Locks a mutex whose value is consistent even if a thread panicked while it held the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
