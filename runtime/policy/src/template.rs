//! Keys with places for values: `"payment:{order_id}"`.

use crate::key::{LONGEST, check_fixed};

/// The key of a locked function: fixed text, and placeholders for values of its parameters.
///
/// Values are written into a key without `:` and `/`, so these separate one value from the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyTemplate {
    /// The pieces, in order.
    pub parts: Vec<KeyPiece>,
}

/// One piece of a [`KeyTemplate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPiece {
    /// Text that is the same in every key.
    Fixed(String),
    /// The value of a parameter, or of a field of one: `order_id`, or `order` and `id`. Never empty.
    Value(Vec<String>),
}

impl KeyTemplate {
    /// Parses `"payment:{order_id}"`.
    ///
    /// The error is the second half of a sentence, as that of [`check_key`](crate::check_key).
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(brace) = rest.find(['{', '}']) {
            let (fixed, from_brace) = rest.split_at(brace);
            push_fixed(&mut parts, fixed);
            if from_brace.starts_with("{{") || from_brace.starts_with("}}") {
                return Err(
                    "a key has no braces of its own; `{` begins a value, as in `{order_id}`".to_owned()
                );
            }
            let value = from_brace.strip_prefix('{').ok_or("`}` ends no value; write `{` before its name")?;
            let (path, after) =
                value.split_once('}').ok_or("`{` is not closed; write `}` behind the name")?;
            parts.push(KeyPiece::Value(parse_path(path)?));
            rest = after;
        }
        push_fixed(&mut parts, rest);
        let template = Self { parts };
        template.check()?;
        Ok(template)
    }

    fn check(&self) -> Result<(), String> {
        let fixed: String = self.fixed().collect();
        match self.parts.as_slice() {
            [] => return check_fixed(""),
            [KeyPiece::Value(path)] => {
                let path = path.join(".");
                return Err(format!(
                    "it is a value alone, which could be empty, or the key of something else; put a name in front \
                     of it, as in \"payment:{{{path}}}\""
                ));
            }
            _ => check_fixed(&fixed)?,
        }
        if fixed.len() > LONGEST {
            let length = fixed.len();
            return Err(format!("its fixed part alone has {length} characters, {LONGEST} are allowed"));
        }
        let mut before: Option<&[String]> = None;
        let mut set_apart = true;
        for part in &self.parts {
            match part {
                KeyPiece::Fixed(text) => set_apart |= text.contains([':', '/']),
                KeyPiece::Value(path) => {
                    if let Some(before) = before.filter(|_| !set_apart) {
                        let (one, two) = (before.join("."), path.join("."));
                        return Err(format!(
                            "`{{{one}}}` and `{{{two}}}` have no `:` or `/` between them, so their values could not \
                             be told apart; write `{{{one}}}:{{{two}}}`"
                        ));
                    }
                    (before, set_apart) = (Some(path.as_slice()), false);
                }
            }
        }
        Ok(())
    }

    fn fixed(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            KeyPiece::Fixed(text) => Some(text.as_str()),
            KeyPiece::Value(_) => None,
        })
    }
}

fn push_fixed(parts: &mut Vec<KeyPiece>, text: &str) {
    if !text.is_empty() {
        parts.push(KeyPiece::Fixed(text.to_owned()));
    }
}

/// Parses the text between two braces.
fn parse_path(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Err("`{}` names no parameter; write one, as in `{order_id}`".to_owned());
    }
    if let Some((path, format)) = text.split_once(':') {
        return Err(format!(
            "`{{{text}}}` asks for a format, `:{format}`; write `{{{path}}}`: values are written as `Display` has them"
        ));
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("`{{{text}}}` is a position; name the parameter, as in `{{order_id}}`"));
    }
    let mut names = text.split('.');
    let is_a_path = names.next().is_some_and(is_name) && names.all(|name| is_name(name) || is_index(name));
    if !is_a_path {
        return Err(format!(
            "`{{{text}}}` is neither a parameter nor a field of one, as in `{{order_id}}` or `{{order.id}}`"
        ));
    }
    Ok(text.split('.').map(str::to_owned).collect())
}

fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|first| first == '_' || first.is_alphabetic())
        && letters.all(|letter| letter == '_' || letter.is_alphanumeric())
        && text != "_"
}

fn is_index(text: &str) -> bool {
    text.parse::<u16>().is_ok_and(|index| index.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(text: &str) -> KeyPiece {
        KeyPiece::Fixed(text.to_owned())
    }

    fn value(path: &[&str]) -> KeyPiece {
        KeyPiece::Value(path.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn key_is_split_into_text_and_values() {
        let parts = |text| KeyTemplate::parse(text).unwrap().parts;
        assert_eq!(parts("close-books"), [fixed("close-books")]);
        assert_eq!(parts("payment:{order_id}"), [fixed("payment:"), value(&["order_id"])]);
        assert_eq!(
            parts("{self.shop.0}/order-{order.id}.lock"),
            [value(&["self", "shop", "0"]), fixed("/order-"), value(&["order", "id"]), fixed(".lock")]
        );
    }

    #[test]
    fn invalid_key_is_refused_with_a_reason() {
        for (text, why) in [
            ("", "it is empty"),
            ("{id}", "it is a value alone"),
            ("pay:{}", "names no parameter"),
            ("pay:{0}", "is a position"),
            ("pay:{id:?}", "write `{id}`"),
            ("pay:{id", "is not closed"),
            ("pay:id}", "ends no value"),
            ("pay:{{id}}", "no braces of its own"),
            ("pay:{order.id()}", "neither a parameter nor a field"),
            ("pay:{ id }", "neither a parameter nor a field"),
            ("pay:{order.}", "neither a parameter nor a field"),
            ("pay:{order.007}", "neither a parameter nor a field"),
            ("pay:{_}", "neither a parameter nor a field"),
            ("pay {id}", "' ' is not allowed"),
            ("pay:{a}{b}", "write `{a}:{b}`"),
            ("pay:{a}-{b.c}", "write `{a}:{b.c}`"),
            (&format!("{}:{{id}}", "k".repeat(128)), "129 characters"),
        ] {
            let problem = KeyTemplate::parse(text).unwrap_err();
            assert!(problem.contains(why), "{text}: {problem}");
        }
        assert!(KeyTemplate::parse("pay:{a}:{b}/{c}-x/{d}").is_ok());
        assert!(KeyTemplate::parse(&"k".repeat(128)).is_ok());
    }
}
