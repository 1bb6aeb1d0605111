//! Tokens: what a claim is known by, and what proves a lease.

use std::sync::Arc;

use uuid::{Builder, Uuid};

/// A token that nobody can guess.
pub(crate) fn token() -> Arc<str> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).expect(NO_RANDOM);
    written(random)
}

/// So many are drawn with one call to the system.
const DRAWN: usize = 64;

/// Tokens for claims that are made right now: none is kept for later, where a machine that was copied while it ran would
/// have it twice.
#[derive(Default)]
pub(crate) struct Tokens(Vec<[u8; 16]>);

impl Tokens {
    pub(crate) fn next(&mut self) -> Arc<str> {
        if self.0.is_empty() {
            let mut random = [[0; 16]; DRAWN];
            getrandom::fill(random.as_flattened_mut()).expect(NO_RANDOM);
            self.0.extend(random);
        }
        written(self.0.pop().unwrap_or_default())
    }
}

const NO_RANDOM: &str = "the system has random numbers";

fn written(random: [u8; 16]) -> Arc<str> {
    let token = Builder::from_random_bytes(random).into_uuid();
    Arc::from(&*token.hyphenated().encode_lower(&mut Uuid::encode_buffer()))
}
