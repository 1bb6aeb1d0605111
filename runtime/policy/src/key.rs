//! Keys and names: which characters and lengths are allowed.

/// The longest key, in characters.
pub const LONGEST: usize = 128;

/// The characters that a key may contain besides letters and digits.
const PUNCTUATION: &str = "._:/-";

/// Checks a job's key: 1 to 128 characters of `A–Z a–z 0–9 . _ : / -`.
///
/// The error is the second half of a sentence: "`+` is not allowed; …".
pub fn check_key(key: &str) -> Result<(), String> {
    check(key, PUNCTUATION, "import-products")?;
    check_length(key)
}

/// Checks the fixed text of a key template, all of it together, except for its length.
pub(crate) fn check_fixed(text: &str) -> Result<(), String> {
    check(text, PUNCTUATION, "payment:{order_id}")
}

/// Checks a namespace or a server's name: like a key, without `:` and `/`, which separate them from keys.
pub fn check_name(name: &str, example: &str) -> Result<(), String> {
    check(name, "._-", example)?;
    check_length(name)
}

fn check(text: &str, punctuation: &str, example: &str) -> Result<(), String> {
    if text.is_empty() {
        return Err(format!("it is empty; write one, as in \"{example}\""));
    }
    if let Some(bad) = text.chars().find(|c| !c.is_ascii_alphanumeric() && !punctuation.contains(*c)) {
        let marks: Vec<_> = punctuation.chars().map(|mark| format!("`{mark}`")).collect();
        return Err(format!("{bad:?} is not allowed; use letters, digits and {}", marks.join(" ")));
    }
    Ok(())
}

fn check_length(text: &str) -> Result<(), String> {
    if text.len() > LONGEST {
        return Err(format!("it has {} characters, {LONGEST} are allowed", text.len()));
    }
    Ok(())
}
