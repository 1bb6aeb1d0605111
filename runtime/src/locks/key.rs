//! The key of a locked function, made from its arguments.

use std::fmt::{self, Write};

use singleton_jobs_policy::LONGEST_KEY;
use uuid::Uuid;

use super::LockError;
use super::acquire::options::invalid;

/// What can be part of the key of a [locked](crate::locked) function: everything that implements
/// [`Display`](fmt::Display).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a lock's key",
    label = "this value has no text that would do",
    note = "a key is made of values that implement `Display`, such as numbers, strings and ids; name a field that does, \
            as in `{{order.id}}`"
)]
pub trait KeyPart {
    #[doc(hidden)]
    fn add_to(&self, key: &mut Key);
}

#[diagnostic::do_not_recommend]
impl<T: fmt::Display + ?Sized> KeyPart for T {
    fn add_to(&self, key: &mut Key) {
        key.has_values = true;
        key.is_broken |= write!(Escaped(&mut key.text), "{self}").is_err();
    }
}

/// Not public API. A key in the making.
///
/// Different values make different keys. In a value `A–Z a–z 0–9 _ -` stay as they are, `.` becomes `..` and every other
/// byte `.XX`, so that it cannot contain the `:` or `/` that sets it apart from the next one, nor be mistaken for it. A
/// key that would be too long keeps its beginning and ends in a hash of the whole.
///
/// Fixed here for ever: servers of different versions must agree on a key.
#[derive(Debug)]
pub struct Key {
    text: String,
    has_values: bool,
    /// A value could not be written.
    is_broken: bool,
}

/// The end of a key that is too long: two dots and 32 digits.
const HASHED: usize = 2 + 32;

/// For nothing but these hashes, and so a namespace of its own.
const NAMESPACE: Uuid = Uuid::from_u128(0x6c3b_58a0_42f7_4f6d_9a15_70c1_7e2d_94b3);

impl Key {
    /// Not `default`, which needs a trait that the module of a locked function may not know.
    #[allow(clippy::new_without_default, reason = "not for people")]
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
                "the lock's key, which begins with \"{text}\", cannot be made: the `Display` of one of its values failed"
            )));
        }
        // Also at the limit: then those with a hash are of a length that those without one never have, and nobody can
        // choose a short value that looks like the hash of a long one.
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
        let mut key = Key::new();
        key.add_fixed("payment:");
        value.add_to(&mut key);
        key.finish().unwrap()
    }

    #[test]
    fn a_value_stays_in_its_place() {
        assert_eq!(key("AZaz09_-"), "payment:AZaz09_-");
        assert_eq!(key(""), "payment:");
        assert_eq!(key("a.b"), "payment:a..b");
        assert_eq!(key("a:b/c"), "payment:a.3Ab.2Fc");
        assert_eq!(key("{} \n\0"), "payment:.7B.7D.20.0A.00");
        assert_eq!(key("ü€"), "payment:.C3.BC.E2.82.AC");
        assert_ne!(key(".3A"), key(":"));
    }

    /// Every server must come to the same key, whatever its version: these must never change.
    #[test]
    fn a_long_key_ends_in_a_hash_that_stays_the_same() {
        let long = key(&"x".repeat(1000));
        assert_eq!(long, format!("payment:{}..59aa7c9991265428be91601c11394571", "x".repeat(86)));
        assert_eq!(check_key(&long), Ok(()));
        assert_ne!(long, key(&"x".repeat(1001)));
    }

    #[test]
    fn a_key_with_a_hash_is_not_one_that_a_short_value_makes() {
        let (short, at_the_limit) = (key(&"x".repeat(119)), key(&"x".repeat(120)));
        assert_eq!(short, format!("payment:{}", "x".repeat(119)));
        assert_eq!((short.len(), at_the_limit.len()), (127, 128));
        let (beginning, hash) = at_the_limit.split_once("..").unwrap();
        let forged = format!("{}.{hash}", beginning.strip_prefix("payment:").unwrap());
        assert_ne!(key(&forged), at_the_limit);
    }

    #[test]
    fn a_fixed_key_is_left_alone() {
        let mut fixed = Key::new();
        fixed.add_fixed(&"k".repeat(128));
        assert_eq!(fixed.finish().unwrap(), "k".repeat(128));
    }

    struct Unspeakable;

    impl fmt::Display for Unspeakable {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            Err(fmt::Error)
        }
    }

    #[test]
    fn a_value_that_cannot_be_written_locks_nothing() {
        let mut key = Key::new();
        key.add_fixed("payment:");
        Unspeakable.add_to(&mut key);
        let error = key.finish().unwrap_err().to_string();
        assert!(error.contains("\"payment:\", cannot be made"), "{error}");
    }
}
