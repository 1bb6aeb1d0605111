//! Tokens: what a claim is known by, and what proves a lease.

use std::sync::Arc;

use uuid::{Builder, Uuid};

/// A token that nobody can guess.
pub(crate) fn token() -> Arc<str> {
    written(Uuid::new_v4())
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
            getrandom::fill(random.as_flattened_mut()).expect("the system has random numbers");
            self.0.extend(random);
        }
        written(Builder::from_random_bytes(self.0.pop().unwrap_or_default()).into_uuid())
    }
}

fn written(token: Uuid) -> Arc<str> {
    Arc::from(&*token.hyphenated().encode_lower(&mut Uuid::encode_buffer()))
}
