//! The rules for a job that can be checked at compile time, and their messages.
//!
//! The rules for values are shared with the runtime: they are in `singleton-jobs-policy`.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use singleton_jobs_policy::Settings;
use syn::{Error, FnArg, Path, Result, Type};

use crate::args::{Args, Kind, Known};
use crate::expand;
use crate::function::{Function, Role, attribute_span, combined, find_impl};

/// An annotated function without mistakes.
pub(crate) struct Job {
    pub(crate) args: Args,
    pub(crate) function: Function,
    pub(crate) krate: Path,
}

const ROLE: Role = Role { name: "a job", example: "async fn import_products() { … }" };

const KNOWN: Known = &[
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
    ("pause_after", Kind::Number(5)),
    ("on_success", Kind::Path("ping_monitor")),
    ("on_failure", Kind::Path("alert_on_call")),
    ("on_overdue", Kind::Path("alert_on_call")),
    ("crate", Kind::Path("my::jobs")),
];

/// The function as it is written, followed by its registration or its mistakes.
pub(crate) fn singleton_job(arguments: TokenStream, item: &TokenStream) -> TokenStream {
    let job = Job::parse(arguments, item.clone());
    let registration = job.as_ref().map_or_else(Error::to_compile_error, expand::registration);
    // A job must be async, even without an `await` in it; Clippy's advice to remove the `async` would break it.
    let asynchronous = job.is_ok().then(|| quote!(#[allow(clippy::unused_async)]));
    quote!(#asynchronous #item #registration)
}

impl Job {
    /// Checks everything before it fails, so that one compilation shows all mistakes.
    pub(crate) fn parse(arguments: TokenStream, item: TokenStream) -> Result<Self> {
        let attribute = attribute_span(&item);
        let mut args = Args::parse(KNOWN, arguments)?;
        let function = Function::parse(&ROLE, item);

        args.require_first(attribute);
        let mut mistakes = std::mem::take(&mut args.mistakes);
        let problems = settings(&args).policy_without(&args.unread).err().unwrap_or_default();
        mistakes.extend(args.mistakes_for(&problems, attribute));
        match &function {
            Ok(function) => check_function(function, &mut mistakes),
            Err(not_a_function) => mistakes.push(not_a_function.clone()),
        }
        combined(mistakes).map_or(Ok(()), Err)?;
        let krate = args.krate();
        Ok(Self { args, function: function?, krate })
    }

    pub(crate) fn settings(&self) -> Settings<'_> {
        settings(&self.args)
    }
}

fn settings(args: &Args) -> Settings<'_> {
    Settings {
        key: args.text("key").unwrap_or_default(),
        ttl: args.text("ttl"),
        every: args.text("every"),
        tz: args.text("tz"),
        timeout: args.text("timeout"),
        retries: args.number("retries"),
        retry_delay: args.text("retry_delay"),
        overlap: args.text("overlap"),
        missed: args.text("missed"),
        on_crash: args.text("on_crash"),
        takeovers: args.number("takeovers"),
        grace: args.text("grace"),
        jitter: args.text("jitter"),
        keep_alive: args.flag("keep_alive"),
        on_lost: args.text("on_lost"),
        pause_after: args.number("pause_after"),
    }
}

fn check_function(function: &Function, mistakes: &mut Vec<Error>) {
    function.check(&ROLE, mistakes);
    let mut mistake = |at: &dyn ToTokens, message: &str| mistakes.push(Error::new_spanned(at, message));

    if let Some(attribute) = function.attribute("locked") {
        mistake(attribute, "a job runs under a lock of its own; remove `#[locked]`");
    }
    let signature = &function.signature;
    if !signature.generics.params.is_empty() {
        let message = "a job cannot be generic, because each key names exactly one function";
        mistake(&signature.generics, message);
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

#[cfg(test)]
mod tests {
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
    fn body_of_a_job_is_not_parsed() {
        let item = quote!(async fn import_products() { not Rust 1 2 3 ,;, });
        assert!(Job::parse(quote!(key = "import-products"), item).is_ok());
    }
}
