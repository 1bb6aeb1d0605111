//! Arbitrary tokens in the attributes: never a panic, and the function is always re-emitted. Also that the attribute and the
//! runtime have the same opinion of every schedule, in the same words.

use std::panic::catch_unwind;
use std::str::FromStr;

use fuzz::{Target, Verdict};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::quote;

use crate::job::{self, Job};
use crate::locked::locked;

const ATTRIBUTES: Target<'_> = Target {
    corpus: "attributes",
    words: r#"
            key ttl every tz timeout retries overlap missed on_crash takeovers grace jitter
            keep_alive on_lost pause_after crate wait within = , " "60s" "a:{id}" { } ( ) [ ] < > async fn self
            Self super r# 'a & :: -> # ! ; - 1_000u8 99999999999999999999 0x 1e400 b" c"s" ' \ \u{0}
            true impl _ const unsafe extern where dyn mut macro_rules $ ... @ .self .0 .r#
        "#,
    cases: 3_000,
    kinds: &["accepted", "refused", "not tokens"],
};

type Attribute = fn(TokenStream, TokenStream) -> TokenStream;

const SINGLETON_JOB: Attribute = |arguments, item| job::singleton_job(arguments, &item);

/// Takes `#[name(arguments)] item` apart; tokens of another form are arguments.
fn split(tokens: TokenStream) -> (TokenStream, TokenStream) {
    let mut trees = tokens.clone().into_iter();
    if let (Some(TokenTree::Punct(hash)), Some(TokenTree::Group(group))) = (trees.next(), trees.next())
        && hash.as_char() == '#'
        && let [TokenTree::Ident(_), rest @ ..] = &group.stream().into_iter().collect::<Vec<_>>()[..]
    {
        let arguments = match rest {
            [TokenTree::Group(arguments)] => arguments.stream(),
            rest => rest.iter().cloned().collect(),
        };
        return (arguments, trees.collect());
    }
    (
        tokens,
        quote!(
            async fn charge(order_id: u64, self_: Order) -> u8 {
                order_id.await
            }
        ),
    )
}

/// All tokens, with the ends of groups.
fn flat(tokens: TokenStream, found: &mut Vec<String>) {
    for tree in tokens {
        match tree {
            TokenTree::Group(group) => {
                let ends = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                found.push(ends.0.to_owned());
                flat(group.stream(), found);
                found.push(ends.1.to_owned());
            }
            other => found.push(other.to_string()),
        }
    }
}

/// Whether these tokens are in the output, one after the other.
fn contains(output: &TokenStream, part: TokenStream) -> bool {
    let (mut all, mut wanted) = (Vec::new(), Vec::new());
    flat(output.clone(), &mut all);
    flat(part, &mut wanted);
    wanted.is_empty() || all.windows(wanted.len()).any(|window| window == wanted)
}

/// Whether the function is in the output: as it was written, or its name and its body.
fn is_re_emitted(output: &TokenStream, item: &TokenStream) -> bool {
    let trees: Vec<_> = item.clone().into_iter().collect();
    let is_fn = |tree: &TokenTree| matches!(tree, TokenTree::Ident(word) if word == "fn");
    let name = trees.iter().position(is_fn).and_then(|at| trees.get(at..at + 2));
    let name_and_body = name.zip(trees.last()).is_some_and(|(name, body)| {
        contains(output, name.iter().cloned().collect()) && contains(output, body.clone().into())
    });
    contains(output, item.clone()) || name_and_body
}

/// The text without brackets that close nothing, and with the missing ones at its end: most mutations break a pair.
fn balanced(text: &str) -> String {
    let mut open = Vec::new();
    let mut fits = |c: &char| {
        match c {
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' => return open.pop_if(|expected| expected == c).is_some(),
            _ => {}
        }
        true
    };
    let mut text: String = text.chars().filter(|c| fits(c)).collect();
    text.extend(open.into_iter().rev());
    text
}

fn check(case: &[u8], attributes: [Attribute; 2]) -> Verdict {
    let text = String::from_utf8_lossy(case);
    let tokens = TokenStream::from_str(&text).or_else(|_| TokenStream::from_str(&balanced(&text)));
    let Ok(tokens) = tokens else { return Ok("not tokens") };
    let (arguments, item) = split(tokens);
    let is_function = syn::parse2::<syn::ItemFn>(item.clone()).is_ok();
    let mut kind = "refused";
    for attribute in attributes {
        let output = attribute(arguments.clone(), item.clone());
        if !is_re_emitted(&output, &item) {
            return Err(format!("the function is not in the output: {output}"));
        }
        if is_function && let Err(error) = syn::parse2::<syn::File>(output.clone()) {
            return Err(format!("the output is no Rust ({error}): {output}"));
        }
        if !contains(&output, quote!(compile_error)) {
            kind = "accepted";
        }
    }
    Ok(kind)
}

#[test]
fn attribute_never_panics_and_always_re_emits_the_function() {
    ATTRIBUTES.run(|case| check(case, [SINGLETON_JOB, locked]));
}

#[test]
fn attribute_that_drops_the_function_after_a_mistake_is_found() {
    let drops = |arguments: TokenStream, item: TokenStream| {
        let mistakes = Job::parse(arguments.clone(), item.clone()).err();
        mistakes.map_or_else(|| SINGLETON_JOB(arguments, item), |mistakes| mistakes.to_compile_error())
    };
    ATTRIBUTES.finds("a dropped function", |case| check(case, [drops, locked]));
}

#[test]
fn attribute_that_panics_on_a_wrong_literal_is_found() {
    let panics = |arguments: TokenStream, item: TokenStream| {
        for tree in arguments {
            if let TokenTree::Literal(literal) = tree {
                assert!(!literal.to_string().starts_with('b'), "bytes are no text");
            }
        }
        item
    };
    ATTRIBUTES.finds("a panic", |case| check(case, [SINGLETON_JOB, panics]));
}

const SCHEDULES: Target<'_> = Target {
    corpus: "schedules",
    words: r#"
            | * / - , L W # ? MON JAN @daily 10m 5s " \ UTC
        "#,
    cases: 500,
    kinds: &["accepted", "refused"],
};

/// The messages about a job, in the order of their words.
type Opinion = fn(&[Option<&str>; 6]) -> Vec<String>;

fn attribute([every, tz, jitter, grace, ttl, timeout]: &[Option<&str>; 6]) -> Vec<String> {
    let every = every.unwrap_or_default();
    let mut arguments = quote!(key = "job", every = #every,);
    for (name, text) in [("tz", tz), ("jitter", jitter), ("grace", grace), ("ttl", ttl), ("timeout", timeout)]
    {
        let name = quote::format_ident!("{name}");
        arguments.extend(text.map(|text| quote!(#name = #text,)));
    }
    let mistakes = Job::parse(
        arguments,
        quote!(
            async fn job() {}
        ),
    )
    .err();
    mistakes.into_iter().flatten().map(|mistake| mistake.to_string()).collect()
}

fn runtime([every, tz, jitter, grace, ttl, timeout]: &[Option<&str>; 6]) -> Vec<String> {
    let every = every.unwrap_or_default();
    let job = jobs::Job::builder("job");
    let mut job = match tz {
        Some(tz) => job.every_in(every, tz),
        None => job.every(every),
    };
    job = jitter.iter().fold(job, |job, jitter| job.jitter(*jitter));
    job = grace.iter().fold(job, |job, grace| job.grace(*grace));
    job = ttl.iter().fold(job, |job, ttl| job.ttl(*ttl));
    job = timeout.iter().fold(job, |job, timeout| job.timeout(*timeout));
    let problem = job.run(|_| async {}).build().err();
    problem.into_iter().map(|problem| problem.message).collect()
}

/// Compares the messages of the attribute with the text of the runtime, which joins its own in another order.
fn agree(case: &[u8], attribute: Opinion, runtime: Opinion) -> Verdict {
    let case = String::from_utf8_lossy(case);
    let mut fields = case.split('|').map(|field| Some(field).filter(|field| !field.is_empty()));
    let fields = [const { None::<Option<&str>> }; 6].map(|_| fields.next().flatten());
    let (one, two) = (attribute(&fields), runtime(&fields).join("; "));
    let length: usize = one.iter().map(|message| message.len() + "; ".len()).sum();
    let same_length = length.saturating_sub("; ".len()) == two.len();
    if !same_length || !one.iter().all(|message| two.contains(message.as_str())) {
        return Err(format!("the attribute says {one:?}, and the runtime {two:?}"));
    }
    Ok(if one.is_empty() { "accepted" } else { "refused" })
}

#[test]
fn attribute_and_runtime_have_the_same_opinion_of_every_schedule() {
    SCHEDULES.run(|case| agree(case, attribute, runtime));
}

#[test]
fn runtime_that_accepts_what_the_attribute_refuses_is_found() {
    let lenient: Opinion =
        |fields| runtime(&fields.map(|field| field.map(str::trim).filter(|field| *field != "7L")));
    SCHEDULES.finds("another opinion", |case| agree(case, attribute, lenient));
}

/// `catch_unwind` sees a panic of the tokens' own library, too: `Ident::new_raw("self")`.
#[test]
fn field_that_is_no_identifier_is_a_mistake() {
    for field in ["self", "Self", "super", "crate", "ⓐ", "_"] {
        let key = format!("a:{{order.{field}}}");
        let output = catch_unwind(|| {
            locked(
                quote!(key = #key),
                quote!(
                    async fn f(order: Order) {}
                ),
            )
            .to_string()
        });
        assert!(output.expect("no panic").contains("compile_error"), "{field}");
    }
}
