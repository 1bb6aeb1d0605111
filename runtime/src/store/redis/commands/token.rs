//! The token of a lock: text, even if another program wrote bytes that are no text, or no string at all.
//!
//! A token that this crate writes is the text of a UUID. Text that begins with a zero byte stands for something else, so that
//! every value that a lock can have has a token of its own.

use std::sync::Arc;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// The token of a lock that is not a string.
pub(crate) const NOT_A_STRING: &str = "\0type";

/// Prefix of the encoded bytes of a value that is not a token itself.
const BYTES: &str = "\0bytes:";

/// The token of a lock whose value is these bytes.
pub(crate) fn of_value(value: &[u8]) -> Arc<str> {
    match std::str::from_utf8(value) {
        Ok(text) if !text.starts_with('\0') => text.into(),
        _ => format!("{BYTES}{}", percent_encode(value, NON_ALPHANUMERIC)).into(),
    }
}

/// A lock as swap.lua compares it: empty without a lock, `=` and the value of a string, `*` for another type.
pub(crate) fn expected(token: Option<&str>) -> Vec<u8> {
    match token {
        None => Vec::new(),
        Some(NOT_A_STRING) => b"*".to_vec(),
        Some(token) => match token.strip_prefix(BYTES) {
            Some(encoded) => b"=".iter().copied().chain(percent_decode_str(encoded)).collect(),
            None => [b"=", token.as_bytes()].concat(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_back_from_its_token() {
        let values: [&[u8]; 8] = [
            b"",
            b"8f14e45f-ceea-467f-a8f0-0c2a5b1e3d77",
            "日本".as_bytes(),
            b"\xff\xfe\x00",
            b"\0type",
            b"\0bytes:00",
            b"*",
            b"=",
        ];
        let tokens = values.map(of_value);
        for (value, token) in values.iter().zip(&tokens) {
            assert_eq!(expected(Some(token)), [b"=", *value].concat(), "{value:?}");
            assert_ne!(token.as_ref(), NOT_A_STRING);
        }
        assert_eq!(expected(Some(NOT_A_STRING)), b"*");
        assert_eq!(expected(None), b"");
    }
}
