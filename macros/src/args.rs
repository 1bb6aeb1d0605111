//! The attribute's syntax: `name = value, …`, each with the span of its name or value for messages.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use singleton_jobs_policy::Settings;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Error, LitBool, LitInt, LitStr, Path, Result, Token};

/// What was written between the attribute's parentheses, and everything that is not even syntax.
#[derive(Default)]
pub(crate) struct Args {
    given: Vec<Argument>,
    /// Arguments that were written with a value of the wrong kind.
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

#[derive(Clone, Copy)]
enum Kind {
    /// With a value to show as an example, as the others.
    Text(&'static str),
    Number(u32),
    Flag,
    Path(&'static str),
}

const KNOWN: [(&str, Kind); 16] = [
    ("key", Kind::Text("import-products")),
    ("ttl", Kind::Text("60s")),
    ("every", Kind::Text("0 * * * *")),
    ("tz", Kind::Text("Europe/Berlin")),
    ("timeout", Kind::Text("10m")),
    ("retries", Kind::Number(3)),
    ("retry_delay", Kind::Text("5s")),
    ("overlap", Kind::Text("queue")),
    ("missed", Kind::Text("run_once")),
    ("on_crash", Kind::Text("retry")),
    ("takeovers", Kind::Number(2)),
    ("grace", Kind::Text("5m")),
    ("jitter", Kind::Text("30s")),
    ("keep_alive", Kind::Flag),
    ("on_lost", Kind::Text("continue")),
    ("crate", Kind::Path("my::jobs")),
];

/// Never fails: what cannot be read is kept as a mistake, and reading goes on after the next comma.
impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut args = Self::default();
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
}

impl Args {
    fn parse_argument(&mut self, input: ParseStream<'_>) -> Result<()> {
        let name = input.call(Ident::parse_any).map_err(|error| {
            Error::new(error.span(), "expected an argument, as in `key = \"import-products\"`")
        })?;
        let Some((known, kind)) = KNOWN.into_iter().find(|(known, _)| name == known) else {
            let names: Vec<_> = KNOWN.iter().map(|(known, _)| format!("`{known}`")).collect();
            let message = format!("unknown argument `{name}`; expected one of {}", names.join(", "));
            return Err(Error::new(name.span(), message));
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

    pub(crate) fn is_given(&self, name: &'static str) -> bool {
        self.get(name).is_some() || self.unread.contains(&name)
    }

    /// Where an argument's value is.
    pub(crate) fn span_of(&self, name: &str) -> Option<Span> {
        self.get(name).map(|argument| argument.value_span)
    }

    pub(crate) fn settings(&self) -> Settings<'_> {
        Settings {
            key: self.text("key").unwrap_or_default(),
            ttl: self.text("ttl"),
            every: self.text("every"),
            tz: self.text("tz"),
            timeout: self.text("timeout"),
            retries: self.number("retries"),
            retry_delay: self.text("retry_delay"),
            overlap: self.text("overlap"),
            missed: self.text("missed"),
            on_crash: self.text("on_crash"),
            takeovers: self.number("takeovers"),
            grace: self.text("grace"),
            jitter: self.text("jitter"),
            keep_alive: self.flag("keep_alive"),
            on_lost: self.text("on_lost"),
        }
    }

    /// The path given as `crate = …`.
    pub(crate) fn krate(&self) -> Option<&Path> {
        match &self.get("crate")?.value {
            Value::Path(path) => Some(path),
            _ => None,
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        match &self.get(name)?.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    fn number(&self, name: &str) -> Option<u32> {
        match self.get(name)?.value {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    fn flag(&self, name: &str) -> Option<bool> {
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
