//! The syntax of the attributes: `name = value, …`, each with the span of its name or value for messages.

use crate::near_miss::nearest;
use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use singleton_jobs_policy::Problem;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Error, LitBool, LitInt, LitStr, Path, Result, Token, parse_quote};

/// The arguments of an attribute, and the mistakes in their syntax.
#[derive(Default)]
pub(crate) struct Args {
    known: Known,
    given: Vec<Argument>,
    /// Arguments that have a value of the wrong kind, or none.
    pub(crate) unread: Vec<&'static str>,
    pub(crate) mistakes: Vec<Error>,
}

struct Argument {
    name: &'static str,
    value: Value,
    value_span: Span,
}

enum Value {
    Text(String),
    Number(u32),
    Flag(bool),
    Path(Path),
}

/// The arguments that an attribute takes. The first one is required.
pub(crate) type Known = &'static [(&'static str, Kind)];

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// With an example for messages, as the others.
    Text(&'static str),
    Number(u32),
    Flag,
    Path(&'static str),
}

impl Args {
    /// Keeps an argument that cannot be read as a mistake, and continues after the next comma.
    pub(crate) fn parse(known: Known, arguments: TokenStream) -> Result<Self> {
        (|input: ParseStream<'_>| Self::parse_all(known, input)).parse2(arguments)
    }

    fn parse_all(known: Known, input: ParseStream<'_>) -> Result<Self> {
        let mut args = Self { known, ..Self::default() };
        while !input.is_empty() {
            if let Err(mistake) = args.parse_argument(input) {
                args.mistakes.push(mistake);
                rest_of_argument(input)?;
            }
            if input.parse::<Option<Token![,]>>()?.is_none() && !input.is_empty() {
                args.mistakes.push(Error::new(input.span(), "expected `,` between two arguments"));
                if !input.peek(Ident::peek_any) {
                    rest_of_argument(input)?;
                }
            }
        }
        Ok(args)
    }

    fn parse_argument(&mut self, input: ParseStream<'_>) -> Result<()> {
        let name = input.call(Ident::parse_any).map_err(|error| {
            Error::new(error.span(), format!("expected an argument, as in `{}`", self.example()))
        })?;
        let Some((known, kind)) = self.known.iter().copied().find(|(known, _)| name == known) else {
            return Err(self.unknown(&name));
        };
        if self.is_given(known) {
            return Err(Error::new(name.span(), format!("duplicate argument `{known}`")));
        }
        match parse_value(&name, kind, input) {
            Ok((value, value_span)) => self.given.push(Argument { name: known, value, value_span }),
            Err(mistake) => {
                self.unread.push(known);
                return Err(mistake);
            }
        }
        Ok(())
    }

    fn unknown(&self, name: &Ident) -> Error {
        let known = self.known.iter().map(|(known, _)| *known);
        let message = match nearest(&name.to_string(), known.clone()) {
            Some(meant) => format!("unknown argument `{name}`; did you mean `{meant}`?"),
            None => {
                let names: Vec<_> = known.map(|known| format!("`{known}`")).collect();
                format!("unknown argument `{name}`; expected one of {}", names.join(", "))
            }
        };
        Error::new(name.span(), message)
    }

    pub(crate) fn is_given(&self, name: &'static str) -> bool {
        self.get(name).is_some() || self.unread.contains(&name)
    }

    /// The span of an argument's value.
    pub(crate) fn span_of(&self, name: &str) -> Option<Span> {
        self.get(name).map(|argument| argument.value_span)
    }

    /// Adds a mistake at `attribute` if the first argument is missing.
    pub(crate) fn require_first(&mut self, attribute: Span) {
        let (first, _) = self.known[0];
        if !self.is_given(first) {
            let message = format!("missing argument `{first}`; add `{}`", self.example());
            self.mistakes.push(Error::new(attribute, message));
            self.unread.push(first);
        }
    }

    fn example(&self) -> String {
        match self.known[0] {
            (name, Kind::Text(example)) => format!("{name} = \"{example}\""),
            (name, _) => format!("{name} = …"),
        }
    }

    /// Places problems with values at the values; problems without a value at `attribute`.
    pub(crate) fn mistakes_for(&self, problems: &[Problem], attribute: Span) -> Vec<Error> {
        let mistake = |problem: &Problem| {
            Error::new(self.span_of(problem.argument).unwrap_or(attribute), &problem.message)
        };
        problems.iter().map(mistake).collect()
    }

    /// The path of the runtime: that of `crate = …`, or `::jobs`.
    pub(crate) fn krate(&self) -> Path {
        self.path("crate").cloned().unwrap_or_else(|| parse_quote!(::jobs))
    }

    pub(crate) fn path(&self, name: &str) -> Option<&Path> {
        match &self.get(name)?.value {
            Value::Path(path) => Some(path),
            _ => None,
        }
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match &self.get(name)?.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        match self.get(name)?.value {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        match self.get(name)?.value {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    fn get(&self, name: &str) -> Option<&Argument> {
        self.given.iter().find(|argument| argument.name == name)
    }
}

fn parse_value(name: &Ident, kind: Kind, input: ParseStream<'_>) -> Result<(Value, Span)> {
    let equals = input.parse::<Option<Token![=]>>()?;
    if equals.is_none() || input.is_empty() || input.peek(Token![,]) {
        return Err(Error::new(name.span(), takes(name, kind)));
    }
    let start = input.fork();
    let value_span = input.span();
    let value = match kind {
        Kind::Text(_) => input.parse().map(|text: LitStr| Value::Text(text.value())),
        Kind::Number(_) => input.parse().and_then(|literal| number(&literal)).map(Value::Number),
        Kind::Flag => input.parse().map(|flag: LitBool| Value::Flag(flag.value)),
        Kind::Path(_) => input.call(Path::parse_mod_style).map(Value::Path),
    };
    match value {
        Ok(value) => Ok((value, value_span)),
        Err(_) => Err(Error::new_spanned(rest_of_argument(&start)?, takes(name, kind))),
    }
}

fn number(literal: &LitInt) -> Result<u32> {
    // syn would read `3s` as 3.
    if literal.suffix().is_empty() { literal.base10_parse() } else { Err(Error::new(literal.span(), "")) }
}

fn takes(name: &Ident, kind: Kind) -> String {
    match kind {
        Kind::Text(example) => format!("`{name}` takes a string, as in `{name} = \"{example}\"`"),
        Kind::Number(example) => format!("`{name}` takes a number, as in `{name} = {example}`"),
        Kind::Flag => format!("`{name}` takes `true` or `false`"),
        Kind::Path(example) => format!("`{name}` takes a path, as in `{name} = {example}`"),
    }
}

fn rest_of_argument(input: ParseStream<'_>) -> Result<TokenStream> {
    let mut rest = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        rest.extend([input.parse::<TokenTree>()?]);
    }
    Ok(rest)
}
