//! The rules for a locked function that can be checked at compile time, and their messages.

mod expand;
mod parameters;

use proc_macro2::{Span, TokenStream};
use quote::quote;
use singleton_jobs_policy::{KeyPiece, LockedPolicy, LockedSettings};
use syn::{Error, Path, Result};

use crate::args::{Args, Kind, Known};
use crate::function::{Function, Role, attribute_span, combined};
use parameters::Parameters;

/// An annotated function.
struct LockedFunction {
    function: Function,
    policy: LockedPolicy,
    key: Vec<Piece>,
    /// The key as the author wrote it.
    written_key: String,
    keep_alive: bool,
    krate: Path,
}

/// One piece of the key.
enum Piece {
    Fixed(String),
    /// An expression over the parameters.
    Value(TokenStream),
}

const ROLE: Role = Role { name: "a locked function", example: "async fn charge(order_id: u64) { … }" };

const KNOWN: Known = &[
    ("key", Kind::Text("payment:{order_id}")),
    ("ttl", Kind::Text("30s")),
    ("wait", Kind::Text("5s")),
    ("within", Kind::Text("24h")),
    ("keep_alive", Kind::Flag),
    ("crate", Kind::Path("my::jobs")),
];

/// Expands the function, followed by its mistakes.
pub(crate) fn locked(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let (function, mistakes) = LockedFunction::parse(arguments, item.clone());
    let mistakes = combined(mistakes).as_ref().map(Error::to_compile_error);
    let has_mistakes = mistakes.is_some();
    // With its new return type even if there are mistakes, so that its callers get no further errors.
    let function = function.map_or(item, |function| expand::function(&function, has_mistakes));
    quote!(#function #mistakes)
}

impl LockedFunction {
    /// Parses the function, with defaults in place of mistakes. `None` if it cannot be locked at all.
    fn parse(arguments: TokenStream, item: TokenStream) -> (Option<Self>, Vec<Error>) {
        let attribute = attribute_span(&item);
        let mut args = match Args::parse(KNOWN, arguments) {
            Ok(args) => args,
            Err(mistake) => return (None, vec![mistake]),
        };
        args.require_first(attribute);
        let mut mistakes = std::mem::take(&mut args.mistakes);
        let (policy, problems) = settings(&args).policy_without(&args.unread);
        mistakes.extend(args.mistakes_for(&problems, attribute));
        let function = match check_function(item) {
            Ok(function) => function,
            Err(mistake) => {
                mistakes.push(mistake);
                return (None, mistakes);
            }
        };
        let parameters = Parameters::of(&function.signature);
        let literal = args.span_of("key").unwrap_or(attribute);
        let key = key(&policy, &parameters, literal).unwrap_or_else(|mistake| {
            mistakes.push(mistake);
            Vec::new()
        });
        let keep_alive = args.flag("keep_alive").unwrap_or(true);
        let written_key = args.text("key").unwrap_or_default().to_owned();
        let function = Self { function, policy, key, written_key, keep_alive, krate: args.krate() };
        (Some(function), mistakes)
    }
}

fn settings(args: &Args) -> LockedSettings<'_> {
    LockedSettings {
        key: args.text("key").unwrap_or_default(),
        ttl: args.text("ttl"),
        wait: args.text("wait"),
        within: args.text("within"),
    }
}

fn check_function(item: TokenStream) -> Result<Function> {
    let function = Function::parse(&ROLE, item)?;
    let mut mistakes = Vec::new();
    function.check(&ROLE, &mut mistakes);
    if !function.has_body() {
        let message = "a locked function needs a body; put `#[locked]` on the function that has one";
        mistakes.push(Error::new_spanned(&function.signature.ident, message));
    }
    if let Some(attribute) = function.attribute("singleton_job") {
        let message = "a job runs under a lock of its own; remove `#[locked]`";
        mistakes.push(Error::new_spanned(attribute, message));
    }
    combined(mistakes).map_or(Ok(function), Err)
}

/// The key with each value as an expression, or a mistake for each name that is not a parameter.
fn key(policy: &LockedPolicy, parameters: &Parameters, literal: Span) -> Result<Vec<Piece>> {
    let mut mistakes = Vec::new();
    let mut pieces = Vec::new();
    for part in &policy.key.parts {
        match part {
            KeyPiece::Fixed(text) => pieces.push(Piece::Fixed(text.clone())),
            KeyPiece::Value(path) => match parameters.value(path, literal) {
                Ok(value) => pieces.push(Piece::Value(value)),
                Err(message) => mistakes.push(Error::new(literal, message)),
            },
        }
    }
    combined(mistakes).map_or(Ok(pieces), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_of_a_locked_function_is_not_parsed() {
        let item = quote!(async fn charge() { not Rust 1 2 3 ,;, });
        let (function, mistakes) = LockedFunction::parse(quote!(key = "charge"), item);
        assert!(function.is_some() && mistakes.is_empty());
    }

    #[test]
    fn locked_function_with_a_mistake_in_its_key_keeps_its_new_return_type() {
        let output = locked(
            quote!(key = "pay:{id}"),
            quote!(
                async fn charge(order_id: u64) -> u8 {
                    7
                }
            ),
        );
        let output = output.to_string();
        assert!(
            output.contains("-> :: core :: result :: Result < u8 , :: jobs :: locks :: NotRun >"),
            "{output}"
        );
        assert!(output.contains("compile_error"), "{output}");
    }
}
