//! The machine's clocks, read from the kernel: a preloaded library that shifts a worker's wall clock does not see it.

use std::time::Duration;

use jobs::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// Microseconds of the clock that all processes of the machine share, and that never goes back.
pub fn steady() -> u64 {
    read(ClockId::Monotonic).try_into().expect("a positive clock")
}

/// The true wall clock, which is also that of every store here.
pub fn wall() -> Timestamp {
    Timestamp::from_micros(read(ClockId::Realtime))
}

/// The steady clock at an instant of the wall clock.
pub fn steady_at(instant: Timestamp) -> u64 {
    let offset = read(ClockId::Realtime) - read(ClockId::Monotonic);
    u64::try_from(instant.as_micros() - offset).unwrap_or(0)
}

fn read(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000 + time.tv_nsec / 1000
}

/// Random numbers from a seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from the first to the second.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    pub fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.between(least, most))
    }

    /// Whether something happens that happens once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.between(1, times) == 1
    }

    pub fn choose<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        let index = self.between(0, list.len() as u64 - 1);
        &list[usize::try_from(index).expect("an index")]
    }
}
