//! Tokens: they identify a claim and prove the ownership of its lease.

use std::sync::Arc;

use uuid::Uuid;

use super::random;

/// A token that cannot be guessed.
pub(crate) fn token() -> Arc<str> {
    Arc::from(&*random::uuid().hyphenated().encode_lower(&mut Uuid::encode_buffer()))
}
