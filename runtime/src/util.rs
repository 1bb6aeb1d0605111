//! Small helpers that know nothing of jobs.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A random number that no other caller gets, in this process or another one. Not for secrets.
pub(crate) fn random() -> u64 {
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    SEED.hash_one(DRAWN.fetch_add(1, Ordering::Relaxed))
}
