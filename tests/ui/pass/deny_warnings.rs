//! Nothing that is generated may warn where it is used.
#![deny(warnings, missing_docs, unused, unreachable_pub, unused_qualifications, unused_results)]
#![deny(rust_2018_idioms, let_underscore_drop, missing_debug_implementations)]

use jobs::{Run, singleton_job};

#[singleton_job(key = "no-parameters")]
async fn no_parameters() {}

#[singleton_job(key = "one-parameter")]
async fn one_parameter(run: Run) -> Result<(), String> {
    if run.is_cancelled() { Err("cancelled".to_owned()) } else { Ok(()) }
}

#[singleton_job(key = "called-by-hand")]
async fn called_by_hand(_: Run) {}

pub(super) fn main() {
    drop(called_by_hand(Run::detached("called-by-hand")));
}
