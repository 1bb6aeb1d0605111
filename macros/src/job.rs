//! Every rule about a job that can be checked while its program compiles, and its message.
//!
//! The rules about an argument's value are those of the runtime: they live in `singleton-jobs-policy`.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Error, FnArg, Path, Result, Safety, Signature, Type, parse_quote};

use crate::args::Args;
use crate::function::Function;

/// An annotated function that breaks no rule.
pub(crate) struct Job {
    pub(crate) args: Args,
    pub(crate) function: Function,
    pub(crate) krate: Path,
}

impl Job {
    /// Checks everything before it fails, so that one compilation shows every mistake.
    pub(crate) fn parse(arguments: TokenStream, item: TokenStream) -> Result<Self> {
        let attribute = attribute_span(&item);
        let mut args: Args = syn::parse2(arguments)?;
        let function = syn::parse2::<Function>(item);

        let mut mistakes = std::mem::take(&mut args.mistakes);
        check_arguments(&args, attribute, &mut mistakes);
        match &function {
            Ok(function) => check_signature(&function.signature, &mut mistakes),
            Err(not_a_function) => mistakes.push(not_a_function.clone()),
        }
        let all = mistakes.into_iter().reduce(|mut all, next| {
            all.combine(next);
            all
        });
        all.map_or(Ok(()), Err)?;
        let krate = args.krate().cloned().unwrap_or_else(|| parse_quote!(::jobs));
        Ok(Self { args, function: function?, krate })
    }
}

/// Where the attribute is, seen as something that the function's author wrote: otherwise rustc adds a note
/// about macros to each message.
fn attribute_span(item: &TokenStream) -> Span {
    let written = item.clone().into_iter().next().map_or_else(Span::call_site, |token| token.span());
    Span::call_site().resolved_at(written)
}

fn check_arguments(args: &Args, attribute: Span, mistakes: &mut Vec<Error>) {
    let mut unread = args.unread.clone();
    if !args.is_given("key") {
        unread.push("key");
        let message = "missing argument `key`; add `key = \"import-products\"`";
        mistakes.push(Error::new(attribute, message));
    }
    let problems = args.settings().policy_without(&unread).err().unwrap_or_default();
    mistakes.extend(
        problems
            .iter()
            .map(|problem| Error::new(args.span_of(problem.argument).unwrap_or(attribute), &problem.message)),
    );
}

fn check_signature(signature: &Signature, mistakes: &mut Vec<Error>) {
    let mut mistake = |at: &dyn ToTokens, message: &str| mistakes.push(Error::new_spanned(at, message));

    if let Some(keyword) = &signature.constness {
        mistake(keyword, "a job cannot be a `const fn`; write `async fn`");
    } else if signature.asyncness.is_none() {
        mistake(&signature.fn_token, "a job must be an `async fn`; add `async`");
    }
    if let Safety::Unsafe(keyword) = &signature.safety {
        mistake(keyword, "a job cannot be an `unsafe fn`; use an `unsafe` block inside it");
    }
    if let Some(abi) = &signature.abi {
        mistake(abi, "a job cannot be an `extern fn`; remove `extern`");
    }
    if !signature.generics.params.is_empty() {
        let message = "a job cannot be generic, because each key names exactly one function";
        mistake(&signature.generics, message);
    }
    if let Some(variadic) = &signature.variadic {
        mistake(&variadic.dots, "a job cannot take variable arguments; remove `...`");
    }
    for input in &signature.inputs {
        match input {
            FnArg::Receiver(receiver) => mistake(
                &receiver.self_token,
                "a job cannot be a method; move it out of the `impl` and take what it needs as `State<T>`",
            ),
            FnArg::Typed(parameter) => {
                if let Type::Reference(reference) = &*parameter.ty {
                    mistake(&reference.and_token, "a job owns its parameters; remove the `&`");
                } else if let Some(keyword) = find_impl(parameter.ty.to_token_stream()) {
                    let message =
                        "a job cannot take `impl Trait`, because that makes it generic; name the type";
                    mistake(&keyword, message);
                }
            }
        }
    }
}

/// The first `impl` in a type, however deep.
pub(crate) fn find_impl(tokens: TokenStream) -> Option<Ident> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) if ident == "impl" => Some(ident),
        TokenTree::Group(group) => find_impl(group.stream()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::*;

    // Not among the UI tests: rustc adds five errors of its own, which change from release to release.
    #[test]
    fn variable_arguments_are_refused() {
        let item = quote!(
            async fn import_products(run: Run, ...) {}
        );
        let mistakes = Job::parse(quote!(key = "import-products"), item).err().expect("a mistake");
        assert_eq!(mistakes.to_string(), "a job cannot take variable arguments; remove `...`");
    }

    #[test]
    fn the_body_is_not_read() {
        let item = quote!(async fn import_products() { not Rust 1 2 3 ,;, });
        assert!(Job::parse(quote!(key = "import-products"), item).is_ok());
    }
}
