//! Tokens: they identify a claim and prove the ownership of its lease.

use std::sync::Arc;

use uuid::Uuid;

use super::random;

/// A token that cannot be guessed.
pub(crate) fn token() -> Arc<str> {
    written(random::uuid())
}

/// Tokens for claims that are made now.
pub(crate) struct Tokens(random::Uuids);

impl Tokens {
    pub(crate) fn about(number: usize) -> Self {
        Self(random::Uuids::about(number))
    }

    pub(crate) fn next(&mut self) -> Arc<str> {
        written(self.0.next())
    }
}

fn written(uuid: Uuid) -> Arc<str> {
    Arc::from(&*uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()))
}
