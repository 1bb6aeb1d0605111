//! The only source of randomness of the scheduler, its leases and its locks: a simulation replaces it by a seed.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

/// A random number that no other caller gets, in this process or another one. Not for secrets.
pub(crate) fn random() -> u64 {
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    #[cfg(any(test, feature = "testing"))]
    if let Some(drawn) = seeded::draw() {
        return drawn;
    }
    SEED.hash_one(DRAWN.fetch_add(1, Ordering::Relaxed))
}

/// A random UUID, which cannot be guessed.
pub(crate) fn uuid() -> Uuid {
    #[cfg(any(test, feature = "testing"))]
    if let Some((high, low)) = seeded::draw().zip(seeded::draw()) {
        return uuid::Builder::from_random_bytes((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
            .into_uuid();
    }
    Uuid::new_v4()
}

/// Random UUIDs that cannot be guessed, many with one call to the system. Draw them when they are needed: the copy of a machine that is
/// copied while it runs would draw the same ones.
pub(crate) struct Uuids {
    drawn: Vec<[u8; 16]>,
    at_a_time: usize,
}

impl Uuids {
    const MOST: usize = 64;

    /// About so many.
    pub(crate) fn about(number: usize) -> Self {
        Self { drawn: Vec::new(), at_a_time: number.clamp(1, Self::MOST) }
    }

    pub(crate) fn next(&mut self) -> Uuid {
        #[cfg(any(test, feature = "testing"))]
        if seeded::is_simulated() {
            return uuid();
        }
        let drawn = self.drawn.pop().or_else(|| {
            let mut random = [[0; 16]; Self::MOST];
            let random = &mut random[..self.at_a_time];
            getrandom::fill(random.as_flattened_mut()).ok()?;
            self.drawn.extend_from_slice(random);
            self.drawn.pop()
        });
        drawn.map_or_else(uuid, |drawn| uuid::Builder::from_random_bytes(drawn).into_uuid())
    }
}

#[cfg(any(test, feature = "testing"))]
pub(crate) mod seeded {
    use std::cell::RefCell;
    use std::time::Duration;

    thread_local! {
        static CURRENT: RefCell<Option<SeededRandom>> = const { RefCell::new(None) };
    }

    /// Draws from the seed of this thread, if it has one.
    pub(super) fn draw() -> Option<u64> {
        CURRENT.with_borrow_mut(|current| current.as_mut().map(SeededRandom::next))
    }

    /// Whether a simulation runs on this thread.
    pub(crate) fn is_simulated() -> bool {
        CURRENT.with_borrow(Option::is_some)
    }

    /// Makes this the only source of randomness on this thread until the returned value is dropped.
    #[must_use = "it lasts as long as the returned value"]
    pub(crate) fn use_on_this_thread(random: SeededRandom) -> SeedGuard {
        SeedGuard(CURRENT.replace(Some(random)))
    }

    /// Makes this seed the source of randomness on this thread, for good.
    pub(crate) fn seed_this_thread(seed: u64) {
        CURRENT.set(Some(SeededRandom::new(seed, "runtime")));
    }

    pub(crate) struct SeedGuard(Option<SeededRandom>);

    impl Drop for SeedGuard {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }

    /// Numbers that follow from a seed: `SplitMix64`.
    #[derive(Clone, Debug)]
    pub(crate) struct SeededRandom(u64);

    impl SeededRandom {
        /// The numbers of this seed. Different names have independent numbers.
        pub(crate) fn new(seed: u64, name: &str) -> Self {
            let mut random = Self(seed);
            for byte in name.bytes() {
                random.0 = random.next() ^ u64::from(byte);
            }
            random
        }

        pub(crate) fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        }

        /// A number below this, which is above 0.
        pub(crate) fn below(&mut self, bound: u64) -> u64 {
            self.next() % bound
        }

        /// A number from the first to the last.
        pub(crate) fn between(&mut self, first: u64, last: u64) -> u64 {
            first + self.below(last - first + 1)
        }

        /// An index of a list that is not empty.
        pub(crate) fn index(&mut self, length: usize) -> usize {
            usize::try_from(self.below(length.max(1) as u64)).unwrap_or_default()
        }

        /// One of these.
        pub(crate) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
            choices[self.index(choices.len())].clone()
        }

        /// Whether an event of this probability, in percent, occurs.
        pub(crate) fn percent(&mut self, probability: u64) -> bool {
            self.below(100) < probability
        }

        /// A duration of so many milliseconds.
        pub(crate) fn millis(&mut self, first: u64, last: u64) -> Duration {
            Duration::from_millis(self.between(first, last))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::seeded::{SeededRandom, use_on_this_thread};
    use super::*;

    fn drawn() -> (u64, Uuid, u64) {
        (random(), uuid(), random())
    }

    #[test]
    fn thread_with_a_seed_draws_the_same_numbers_again() {
        let from = |seed, name| {
            let _seeded = use_on_this_thread(SeededRandom::new(seed, name));
            drawn()
        };
        assert_eq!(from(7, "tokens"), from(7, "tokens"));
        assert_ne!(from(7, "tokens"), from(8, "tokens"));
        assert_ne!(from(7, "tokens"), from(7, "network"));
        assert_ne!(drawn(), drawn());
    }

    #[test]
    fn uuids_drawn_together_are_random_and_differ() {
        let mut drawn = std::collections::HashSet::new();
        for about in [0, 1, 7, 1000] {
            let mut uuids = Uuids::about(about);
            drawn.extend((0..150).map(|_| uuids.next()));
        }
        assert_eq!(drawn.len(), 600);
        assert!(drawn.iter().all(|uuid| uuid.get_version_num() == 4));
    }

    #[test]
    fn uuids_drawn_together_follow_from_the_seed_of_a_thread() {
        let seeded = || use_on_this_thread(SeededRandom::new(7, ""));
        let one = {
            let _seeded = seeded();
            uuid()
        };
        let _seeded = seeded();
        assert_eq!(Uuids::about(9).next(), one);
    }

    #[test]
    fn seeded_token_is_a_random_uuid() {
        let _seeded = use_on_this_thread(SeededRandom::new(7, ""));
        assert_eq!(uuid().get_version_num(), 4);
    }
}
