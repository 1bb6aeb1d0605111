//! The annotated function: its attributes and its signature. Its body is not parsed.

use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, ExprLit, FnArg, Lit, Meta, Result, Safety, Signature, Token, Visibility};

pub(crate) struct Function {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    /// Everything after the signature.
    pub(crate) body: TokenStream,
}

/// The words for the function in messages.
pub(crate) struct Role {
    /// `a job`
    pub(crate) name: &'static str,
    /// `async fn import_products() { … }`
    pub(crate) example: &'static str,
}

impl Function {
    pub(crate) fn parse(role: &Role, item: TokenStream) -> Result<Self> {
        (|input: ParseStream<'_>| Self::parse_item(role, input)).parse2(item)
    }

    fn parse_item(role: &Role, input: ParseStream<'_>) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        let first = input.span();
        if !is_function(&input.fork()) {
            let Role { name, example } = role;
            return Err(Error::new(first, format!("{name} must be a function, as in `{example}`")));
        }
        Ok(Self { attributes, visibility, signature: input.parse()?, body: input.parse()? })
    }
}

fn is_function(input: ParseStream<'_>) -> bool {
    while input.peek(Token![const]) || input.peek(Token![async]) || input.peek(Token![unsafe]) {
        if input.parse::<TokenTree>().is_err() {
            return false;
        }
    }
    let _ = input.parse::<Option<syn::Abi>>();
    input.peek(Token![fn])
}

impl Function {
    /// Checks the rules for all annotated functions.
    pub(crate) fn check(&self, role: &Role, mistakes: &mut Vec<Error>) {
        let (name, signature) = (role.name, &self.signature);
        let mut mistake = |at: &dyn ToTokens, message: &str| {
            mistakes.push(Error::new_spanned(at, format!("{name} {message}")));
        };
        if let Some(keyword) = &signature.constness {
            mistake(keyword, "cannot be a `const fn`; write `async fn`");
        } else if signature.asyncness.is_none() {
            mistake(&signature.fn_token, "must be an `async fn`; add `async`");
        }
        if let Safety::Unsafe(keyword) = &signature.safety {
            mistake(keyword, "cannot be an `unsafe fn`; use an `unsafe` block inside it");
        }
        if let Some(abi) = &signature.abi {
            mistake(abi, "cannot be an `extern fn`; remove `extern`");
        }
        if let Some(variadic) = &signature.variadic {
            mistake(&variadic.dots, "cannot take variable arguments; remove `...`");
        }
    }

    /// Whether the function has a body. A required method of a trait has none.
    pub(crate) fn has_body(&self) -> bool {
        let last = self.body.clone().into_iter().last();
        matches!(last, Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace)
    }

    /// Finds the attribute of this name, with any path before it.
    pub(crate) fn attribute(&self, name: &str) -> Option<&Attribute> {
        let is_named = |path: &syn::Path| path.segments.last().is_some_and(|last| last.ident == name);
        self.attributes.iter().find(|attribute| is_named(attribute.path()))
    }

    /// The doc comment, line by line.
    pub(crate) fn description(&self) -> String {
        let lines: Vec<_> = self.attributes.iter().filter_map(doc_text).collect();
        let lines: Vec<_> = lines.iter().flat_map(|text| text.split('\n')).map(str::trim).collect();
        lines.join("\n").trim().to_owned()
    }

    /// The `#[cfg(…)]`s of the function, which its registration needs, too.
    pub(crate) fn conditions(&self) -> TokenStream {
        conditions(&self.attributes)
    }

    /// The types of the parameters, each with its own `#[cfg(…)]`s.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = (TokenStream, &syn::Type)> {
        self.signature.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(parameter) => Some((conditions(&parameter.attrs), &*parameter.ty)),
            FnArg::Receiver(_) => None,
        })
    }
}

/// The span of the attribute, resolved as code of the function's author: otherwise rustc adds a note about macros to each
/// message.
pub(crate) fn attribute_span(item: &TokenStream) -> Span {
    let written = item.clone().into_iter().next().map_or_else(Span::call_site, |token| token.span());
    Span::call_site().resolved_at(written)
}

/// Combines mistakes into one error.
pub(crate) fn combined(mistakes: Vec<Error>) -> Option<Error> {
    mistakes.into_iter().reduce(|mut all, next| {
        all.combine(next);
        all
    })
}

/// Finds the first `impl` in a type, at any depth.
pub(crate) fn find_impl(tokens: TokenStream) -> Option<Ident> {
    tokens.into_iter().find_map(|token| match token {
        TokenTree::Ident(ident) if ident == "impl" => Some(ident),
        TokenTree::Group(group) => find_impl(group.stream()),
        _ => None,
    })
}

fn doc_text(attribute: &Attribute) -> Option<String> {
    match &attribute.meta {
        Meta::NameValue(doc) if doc.path.is_ident("doc") => match &doc.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

fn conditions(attributes: &[Attribute]) -> TokenStream {
    attributes.iter().filter_map(condition).collect()
}

/// The attribute itself if it is a `cfg`; of a `cfg_attr` only the `cfg`s that it brings.
fn condition(attribute: &Attribute) -> Option<TokenStream> {
    let Meta::List(list) = &attribute.meta else { return None };
    if list.path.is_ident("cfg") {
        return Some(attribute.to_token_stream());
    }
    if !list.path.is_ident("cfg_attr") {
        return None;
    }
    let metas = Punctuated::<Meta, Token![,]>::parse_terminated.parse2(list.tokens.clone()).ok()?;
    let mut metas = metas.into_iter();
    let predicate = metas.next()?;
    let cfgs: Vec<_> = metas.filter(|meta| meta.path().is_ident("cfg")).collect();
    (!cfgs.is_empty()).then(|| quote::quote!(#[cfg_attr(#predicate, #(#cfgs),*)]))
}
