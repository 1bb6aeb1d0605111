//! The expansion of a locked function.

use std::time::Duration;

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{ReturnType, Type, parse_quote};

use super::{LockedFunction, Piece};
use crate::expand::option;
use crate::function::find_impl;

// Input:
//     /// Charges the card.
//     #[locked(key = "payment:{order_id}", wait = "5s")]
//     pub async fn charge(order_id: u64) -> anyhow::Result<Receipt> { … }
//
// Output:
//     /// Charges the card.
//     ///
//     /// Each call runs under the lock `payment:{order_id}`.
//     pub async fn charge(order_id: u64) -> Result<anyhow::Result<Receipt>, ::jobs::locks::NotRun> {
//         ::jobs::__private::call(
//             LockedArguments {
//                 key: {
//                     let mut key = KeyBuilder::new();
//                     key.add_fixed("payment:");
//                     KeyPart::add_to(&order_id, &mut key);
//                     key
//                 },
//                 ttl: 30000,
//                 wait: Some(5000),
//                 keep_alive: true,
//             },
//             async move {
//                 if let Some(returned) = None::<anyhow::Result<Receipt>> {
//                     return returned;
//                 }
//                 { … }
//             },
//         )
//         .await
//     }
//
// With `within` it calls `call_once`, which also takes the period and `<anyhow::Result<Receipt> as
// Completion>::is_complete`. The `if let` never matches: it declares the return type of the block, which `?` and `return`
// need, and for which there is no other syntax.
//
// After a mistake in the key, parameters may be unused: that deserves no warning.
pub(super) fn function(locked: &LockedFunction, has_mistakes: bool) -> TokenStream {
    let krate = &locked.krate;
    let private = quote!(#krate::__private);
    let function = &locked.function;
    let (attributes, visibility) = (&function.attributes, &function.visibility);
    let body = without_brace_lint(&function.body);
    let documentation = documentation(locked);

    let returns: Type = match &function.signature.output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, ty) => Type::clone(ty),
    };
    let is_named = find_impl(returns.to_token_stream()).is_none();
    let annotation = is_named.then(|| {
        let returned = Ident::new("__returned", returns.span());
        let (some, none) = (quote!(::core::option::Option::Some), quote!(::core::option::Option::None));
        quote!(if let #some(#returned) = #none::<#returns> { return #returned; })
    });
    let mut signature = function.signature.clone();
    signature.output = parse_quote!(-> ::core::result::Result<#returns, #krate::locks::NotRun>);

    let arguments = arguments(locked, &private);
    let code = quote!(async move { #annotation #body });
    let call = match locked.policy.within {
        None => quote!(#private::call(#arguments, #code)),
        Some(within) => {
            let within = millis(within);
            let is_complete = if is_named {
                quote_spanned!(returns.span()=> <#returns as #private::Completion>::is_complete)
            } else {
                quote!(#private::Completion::is_complete)
            };
            quote!(#private::call_once(#arguments, #within, #is_complete, #code))
        }
    };
    let quiet = has_mistakes.then(|| quote!(#[allow(unused_variables)]));
    quote! {
        #(#attributes)*
        #quiet
        #documentation
        #visibility #signature {
            #call.await
        }
    }
}

/// A line about the lock for the function's documentation, if it has any: a missing one stays missing.
fn documentation(locked: &LockedFunction) -> Option<TokenStream> {
    let key = &locked.written_key;
    let once = match locked.policy.within {
        Some(_) => ", and only if no earlier call succeeded",
        None => "",
    };
    let line = format!(" Each call runs under the lock `{key}`{once}.");
    (!locked.function.description().is_empty()).then(|| quote!(#[doc = ""] #[doc = #line]))
}

fn arguments(locked: &LockedFunction, private: &TokenStream) -> TokenStream {
    let krate = &locked.krate;
    // A name that no parameter can have.
    let key = Ident::new("__key", Span::mixed_site());
    let pieces = locked.key.iter().map(|piece| match piece {
        Piece::Fixed(text) => quote!(#key.add_fixed(#text);),
        Piece::Value(value) => {
            quote_spanned!(value.span()=> #krate::locks::KeyPart::add_to(&#value, &mut #key);)
        }
    });
    let ttl = millis(locked.policy.ttl);
    let wait = option(locked.policy.wait.map(millis));
    let keep_alive = locked.keep_alive;
    quote! {
        #private::LockedArguments {
            key: {
                let mut #key = #private::KeyBuilder::new();
                #(#pieces)*
                #key
            },
            ttl: #ttl,
            wait: #wait,
            keep_alive: #keep_alive,
        }
    }
}

/// The body. Braces around a single expression count as generated here: rustc's `unused_braces` would ask the author to
/// remove them. All others keep their origin, because rustc adds a note about macros to an error in generated braces.
fn without_brace_lint(body: &TokenStream) -> TokenStream {
    let is_semicolon = |tree| matches!(tree, TokenTree::Punct(punct) if punct.as_char() == ';');
    let generated = |tree| match tree {
        TokenTree::Group(group)
            if !group.stream().is_empty() && !group.stream().into_iter().any(is_semicolon) =>
        {
            let mut braces = Group::new(group.delimiter(), group.stream());
            braces.set_span(Span::mixed_site().located_at(group.span()));
            TokenTree::Group(braces)
        }
        other => other,
    };
    body.clone().into_iter().map(generated).collect()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
