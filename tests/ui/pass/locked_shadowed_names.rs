#![allow(unused, non_snake_case, non_upper_case_globals)]

use jobs::locked;

mod core {}
mod std {}
struct Option;
struct Some;
struct None;
struct Result;
struct NotRun;
struct LockedArguments;
struct KeyBuilder;
struct KeyPart;
struct Completion;
fn call() {}
fn call_once() {}

#[locked(key = "payment:{order_id}", wait = "5s", within = "1h")]
async fn charge(order_id: u64) -> ::core::result::Result<(), String> {
    ::core::result::Result::Ok(())
}

pub(super) fn main() {}
