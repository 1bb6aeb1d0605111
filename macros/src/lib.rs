//! The attributes of the package `singleton-jobs`, which re-exports them. Depend on that package.
//!
//! Its tests are the program `attributes` of the workspace, in `unit_tests.rs`: those of a crate of attributes would compile the
//! runtime a second time.

mod args;
mod expand;
mod function;
mod job;
mod locked;
mod near_miss;

use proc_macro::TokenStream;

#[doc = include_str!("singleton_job.md")]
#[proc_macro_attribute]
pub fn singleton_job(arguments: TokenStream, item: TokenStream) -> TokenStream {
    job::singleton_job(arguments.into(), &item.into()).into()
}

#[doc = include_str!("locked.md")]
#[proc_macro_attribute]
pub fn locked(arguments: TokenStream, item: TokenStream) -> TokenStream {
    locked::locked(arguments.into(), item.into()).into()
}
