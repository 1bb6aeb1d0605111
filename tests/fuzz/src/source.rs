//! Random choices that a seed repeats.

/// A source of random choices: the same seed gives the same ones.
#[derive(Clone, Debug)]
pub struct Source(u64);

impl Source {
    /// Creates a source.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns 64 random bits (`SplitMix64`).
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.bits() % limit).unwrap_or_default()
    }

    /// Returns one of the items.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Returns a number of any size: small ones and the ends of types are frequent.
    pub fn number(&mut self) -> i64 {
        let ends = [0, 1, -1, 59, 60, 255, 1 << 31, 1 << 32, 1 << 53, i64::MAX, i64::MIN, i64::MAX - 1];
        match self.below(3) {
            0 => *self.pick(&ends),
            1 => i64::try_from(self.below(100)).unwrap_or_default(),
            _ => i64::from_ne_bytes(self.bits().to_ne_bytes()) >> self.below(64),
        }
    }
}
