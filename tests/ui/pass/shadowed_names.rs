#![allow(unused, non_snake_case, non_upper_case_globals)]

use jobs::{Run, State, singleton_job};

mod core {}
mod std {}
mod inventory {}
struct Option;
struct Some;
struct None;
struct Result;
struct Box;
struct FromRun;
struct IntoOutcome;
struct Registration;
struct Settings;
fn Ok() {}
fn boxed() {}
const needs: u8 = 0;
const context: u8 = 0;
const future: u8 = 0;
static arg0: u8 = 0;
macro_rules! module_path {
    () => {
        0
    };
}
macro_rules! file {
    () => {
        0
    };
}
macro_rules! line {
    () => {
        ""
    };
}

#[singleton_job(key = "import-products", ttl = "60s")]
async fn import_products(_: Run, _: State<u8>) -> ::core::result::Result<(), String> {
    ::core::result::Result::Ok(())
}

pub(super) fn main() {}
