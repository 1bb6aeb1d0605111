//! The registration of a job, which follows its function.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ReturnType;
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use crate::function::find_impl;
use crate::job::Job;

// Input:
//     /// Pulls new products from the supplier.
//     #[singleton_job(key = "import-products", every = "0 * * * *")]
//     async fn import_products(State(db): State<Db>, run: Run) -> anyhow::Result<()> { … }
//
// Output, after the function as it was written:
//     const _: () = {
//         ::jobs::__private::inventory::submit! {
//             ::jobs::__private::Registration {
//                 settings: ::jobs::__private::Settings {
//                     key: "import-products",
//                     every: Some("0 * * * *"),
//                     ttl: None, …
//                 },
//                 description: "Pulls new products from the supplier.",
//                 function: "import_products",
//                 module: module_path!(),
//                 file: file!(),
//                 line: line!(),
//                 needs: |needs| {
//                     <State<Db> as FromRun>::needs(needs);
//                     <Run as FromRun>::needs(needs);
//                 },
//                 call: |run, states| {
//                     let arg0 = <State<Db> as FromRun>::from_run(run, states);
//                     let arg1 = <Run as FromRun>::from_run(run, states);
//                     let function = import_products;
//                     let future = function(arg0, arg1);
//                     boxed(future, <anyhow::Result<()> as IntoOutcome>::into_outcome)
//                 },
//                 hooks: |hooks| { hooks.on_failure(alert_on_call); },
//             }
//         }
//     };
//
// Every path is absolute, because a user's module may shadow any name. Local names start with two underscores, because a
// user's constant of the same name would turn a binding into a pattern. They are used at least once, because a function
// may have no parameters, or none whose `#[cfg]` is true.
pub(crate) fn registration(job: &Job) -> TokenStream {
    let private = {
        let krate = &job.krate;
        quote!(#krate::__private)
    };
    let conditions = job.function.conditions();
    let settings = settings(job);
    let description = job.function.description();
    let function = job.function.signature.ident.unraw().to_string();
    let needs = needs(job, &private);
    let call = call(job, &private);
    let hooks = hooks(job);
    quote! {
        #conditions
        const _: () = {
            #private::inventory::submit! {
                #private::Registration {
                    settings: #private::Settings { #settings },
                    description: #description,
                    function: #function,
                    module: ::core::module_path!(),
                    file: ::core::file!(),
                    line: ::core::line!(),
                    needs: #needs,
                    call: #call,
                    hooks: #hooks,
                }
            }
        };
    }
}

fn settings(job: &Job) -> TokenStream {
    let settings = job.settings();
    let key = settings.key;
    let optional = [
        ("ttl", option(settings.ttl)),
        ("every", option(settings.every)),
        ("tz", option(settings.tz)),
        ("timeout", option(settings.timeout)),
        ("retries", option(settings.retries)),
        ("retry_delay", option(settings.retry_delay)),
        ("overlap", option(settings.overlap)),
        ("missed", option(settings.missed)),
        ("on_crash", option(settings.on_crash)),
        ("takeovers", option(settings.takeovers)),
        ("grace", option(settings.grace)),
        ("jitter", option(settings.jitter)),
        ("keep_alive", option(settings.keep_alive)),
        ("on_lost", option(settings.on_lost)),
        ("pause_after", option(settings.pause_after)),
    ];
    let names = optional.iter().map(|(name, _)| format_ident!("{name}"));
    let values = optional.iter().map(|(_, value)| value);
    quote!(key: #key, #(#names: #values),*)
}

pub(crate) fn option(value: Option<impl ToTokens>) -> TokenStream {
    let none = quote!(::core::option::Option::None);
    value.map_or(none, |value| quote!(::core::option::Option::Some(#value)))
}

fn needs(job: &Job, private: &TokenStream) -> TokenStream {
    let calls = job.function.parameters().map(|(conditions, ty)| {
        quote_spanned!(ty.span()=> #conditions <#ty as #private::FromRun>::needs(__needs);)
    });
    quote!(|__needs| { let _ = &__needs; #(#calls)* })
}

fn call(job: &Job, private: &TokenStream) -> TokenStream {
    let function = &job.function.signature.ident;
    let mut values = TokenStream::new();
    let mut arguments = TokenStream::new();
    for (index, (conditions, ty)) in job.function.parameters().enumerate() {
        let argument = format_ident!("__arg{index}");
        values.extend(quote_spanned! {ty.span()=>
            #conditions
            let #argument = <#ty as #private::FromRun>::from_run(__run, __states);
        });
        arguments.extend(quote!(#conditions #argument,));
    }
    let into_outcome = into_outcome(&job.function.signature.output, private);
    // Used as a value, because Clippy advises to remove `async` from a function that is only called.
    let function_as_value = quote!(let __function = #function;);
    // With the span of the function's name, because rustc points here if the future is not `Send`.
    let future = Ident::new("__future", function.span());
    quote! {
        |__run, __states| {
            let _ = (&__run, &__states);
            #values
            #function_as_value
            let #future = __function(#arguments);
            #private::boxed(#future, #into_outcome)
        }
    }
}

fn hooks(job: &Job) -> TokenStream {
    let calls = ["on_success", "on_failure", "on_overdue"].into_iter().filter_map(|name| {
        let path = job.args.path(name)?;
        // With the span of the path, because rustc points here if the function cannot be a hook.
        let method = Ident::new(name, path.span());
        Some(quote_spanned!(path.span()=> __hooks.#method(#path);))
    });
    quote!(|__hooks| { let _ = &__hooks; #(#calls)* })
}

/// Names the return type, if it can be named, so that rustc underlines all of it.
fn into_outcome(output: &ReturnType, private: &TokenStream) -> TokenStream {
    match output {
        ReturnType::Type(_, ty) if find_impl(ty.to_token_stream()).is_none() => {
            quote_spanned!(ty.span()=> <#ty as #private::IntoOutcome>::into_outcome)
        }
        _ => quote!(#private::IntoOutcome::into_outcome),
    }
}
