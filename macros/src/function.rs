//! The function below the attribute: its attributes and signature. Its body is never read.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, ExprLit, FnArg, Lit, Meta, Result, Signature, Token, Visibility};

pub(crate) struct Function {
    attributes: Vec<Attribute>,
    pub(crate) signature: Signature,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        input.parse::<Visibility>()?;
        let first = input.span();
        if !is_function(&input.fork()) {
            let message = "a job must be a function, as in `async fn import_products() { … }`";
            return Err(Error::new(first, message));
        }
        let signature = input.parse()?;
        input.parse::<TokenStream>()?;
        Ok(Self { attributes, signature })
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
    /// The doc comment, line by line.
    pub(crate) fn description(&self) -> String {
        let lines: Vec<_> = self.attributes.iter().filter_map(doc_text).collect();
        let lines: Vec<_> = lines.iter().flat_map(|text| text.split('\n')).map(str::trim).collect();
        lines.join("\n").trim().to_owned()
    }

    /// The `#[cfg(…)]`s that decide whether the function exists, so that its registration goes with it.
    pub(crate) fn conditions(&self) -> TokenStream {
        conditions(&self.attributes)
    }

    /// What the function takes, each with its own `#[cfg(…)]`s.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = (TokenStream, &syn::Type)> {
        self.signature.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(parameter) => Some((conditions(&parameter.attrs), &*parameter.ty)),
            FnArg::Receiver(_) => None,
        })
    }
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
