//! The key of a locked function, made from its arguments.

use std::fmt::{self, Write};

use singleton_jobs_policy::LONGEST_KEY;
use uuid::Uuid;

use crate::locks::LockError;
use crate::locks::acquire::options::invalid;

/// A value in the key of a [locked](macro@crate::locked) function: everything that implements [`Display`](fmt::Display).
///
/// It cannot be implemented for other types: its method takes a type that is not public. (A sealed supertrait would replace
/// the message below by one about that trait.)
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a lock's key",
    label = "this value has no text that would do",
    note = "a key is made of values that implement `Display`, such as numbers, strings and ids; name a field that does, \
            as in `{{order.id}}`"
)]
pub trait KeyPart {
    #[doc(hidden)]
    fn add_to(&self, key: &mut KeyBuilder);
}

#[diagnostic::do_not_recommend]
impl<T: fmt::Display + ?Sized> KeyPart for T {
    fn add_to(&self, key: &mut KeyBuilder) {
        key.has_values = true;
        key.is_broken |= write!(Escaped(&mut key.text), "{self}").is_err();
    }
}

/// Not public API. Builds the key of a locked function from its fixed text and its arguments.
///
/// Different values make different keys. In a value `A–Z a–z 0–9 _ -` stay as they are, `.` becomes `..` and every other
/// byte `.XX`. So a value cannot contain the `:` or `/` that separates it from the next one. A key that would be too long
/// keeps its beginning and ends in a hash of the whole.
///
/// This format never changes: servers of different versions must agree on a key.
#[derive(Debug)]
pub struct KeyBuilder {
    text: String,
    has_values: bool,
    /// The `Display` of a value failed.
    is_broken: bool,
}

/// The length of the end of a key that is too long: two dots and 32 digits.
const HASHED: usize = 2 + 32;

/// The UUID namespace of these hashes.
const NAMESPACE: Uuid = Uuid::from_u128(0x6c3b_58a0_42f7_4f6d_9a15_70c1_7e2d_94b3);

impl KeyBuilder {
    /// An empty key. Not `default()`, because the module of a locked function may not have that trait in scope.
    #[allow(clippy::new_without_default, reason = "only generated code calls it")]
    pub fn new() -> Self {
        Self { text: String::new(), has_values: false, is_broken: false }
    }

    /// Adds text that is the same in every key.
    pub fn add_fixed(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub(super) fn finish(self) -> Result<String, LockError> {
        let Self { mut text, has_values, is_broken } = self;
        if is_broken {
            return Err(invalid(format!(
                "invalid key that begins with \"{text}\": the `Display` of one of its values failed"
            )));
        }
        // Also at the limit: then keys with a hash have a length that keys without one never have, and no short value
        // makes the same key as the hash of a long one.
        if has_values && text.len() >= LONGEST_KEY {
            let hash = Uuid::new_v5(&NAMESPACE, text.as_bytes());
            text.truncate(LONGEST_KEY - HASHED);
            text.push_str("..");
            text.push_str(hash.simple().encode_lower(&mut Uuid::encode_buffer()));
        }
        Ok(text)
    }
}

struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' => self.0.push(byte.into()),
                b'.' => self.0.push_str(".."),
                _ => write!(self.0, ".{byte:02X}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use singleton_jobs_policy::check_key;

    use super::*;

    fn key(value: &str) -> String {
        let mut key = KeyBuilder::new();
        key.add_fixed("payment:");
        value.add_to(&mut key);
        key.finish().unwrap()
    }

    #[test]
    fn special_characters_of_a_value_are_escaped() {
        assert_eq!(key("AZaz09_-"), "payment:AZaz09_-");
        assert_eq!(key(""), "payment:");
        assert_eq!(key("a.b"), "payment:a..b");
        assert_eq!(key("a:b/c"), "payment:a.3Ab.2Fc");
        assert_eq!(key("{} \n\0"), "payment:.7B.7D.20.0A.00");
        assert_eq!(key("ü€"), "payment:.C3.BC.E2.82.AC");
        assert_ne!(key(".3A"), key(":"));
    }

    /// Servers of all versions must compute the same key.
    #[test]
    fn long_key_ends_in_a_hash_that_never_changes() {
        let long = key(&"x".repeat(1000));
        assert_eq!(long, format!("payment:{}..59aa7c9991265428be91601c11394571", "x".repeat(86)));
        assert_eq!(check_key(&long), Ok(()));
        assert_ne!(long, key(&"x".repeat(1001)));
    }

    #[test]
    fn short_value_cannot_forge_the_hash_of_a_long_key() {
        let (short, at_the_limit) = (key(&"x".repeat(119)), key(&"x".repeat(120)));
        assert_eq!(short, format!("payment:{}", "x".repeat(119)));
        assert_eq!((short.len(), at_the_limit.len()), (127, 128));
        let (beginning, hash) = at_the_limit.split_once("..").unwrap();
        let forged = format!("{}.{hash}", beginning.strip_prefix("payment:").unwrap());
        assert_ne!(key(&forged), at_the_limit);
    }

    #[test]
    fn fixed_key_of_maximum_length_is_not_hashed() {
        let mut fixed = KeyBuilder::new();
        fixed.add_fixed(&"k".repeat(128));
        assert_eq!(fixed.finish().unwrap(), "k".repeat(128));
    }

    struct FailingDisplay;

    impl fmt::Display for FailingDisplay {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            Err(fmt::Error)
        }
    }

    #[test]
    fn value_whose_display_fails_makes_no_key() {
        let mut key = KeyBuilder::new();
        key.add_fixed("payment:");
        FailingDisplay.add_to(&mut key);
        let error = key.finish().unwrap_err().to_string();
        assert!(error.contains("begins with \"payment:\": the `Display`"), "{error}");
    }
}
