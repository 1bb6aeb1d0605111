//! Jobs and locked functions wherever a function can stand. Each module is one program: its `main` is called below.

#![allow(
    dead_code,
    clippy::all,
    clippy::pedantic,
    clippy::non_minimal_cfg,
    reason = "programs as users write them"
)]
// No effect in a module.
#![deny(rust_2024_compatibility)]

mod all_arguments;
mod cfg;
mod cfg_on_parameter;
mod crate_path;
mod deny_warnings;
mod doc_comment;
mod every_parameter_kind;
mod forbid_unsafe;
mod generated_by_a_macro;
mod hooks;
mod inside_a_function;
mod instrument;
mod locked_all_arguments;
mod locked_deny_warnings;
mod locked_generated_by_a_macro;
mod locked_generics;
mod locked_methods;
mod locked_no_implicit_prelude;
#[rustfmt::skip] // One line each.
mod locked_one_line_body;
mod locked_other_attributes;
mod locked_patterns;
mod locked_return_types;
mod locked_shadowed_names;
mod modules;
mod no_implicit_prelude;
mod own_module_named_jobs;
mod parameter_patterns;
mod raw_identifier;
mod return_types;
mod shadowed_names;
mod two_schedules_for_one_function;
mod visibility;

use jobs::__private::{Registration, inventory};

/// The jobs that a program has registered, in the order of their keys.
fn registered(program: &str) -> Vec<&'static Registration> {
    let is_of = |job: &&Registration| {
        job.module == program || job.module.strip_prefix(program).is_some_and(|rest| rest.starts_with("::"))
    };
    let mut found: Vec<_> = inventory::iter::<Registration>.into_iter().filter(is_of).collect();
    found.sort_unstable_by_key(|job| job.settings.key);
    found
}

#[test]
fn every_program_runs() {
    all_arguments::main();
    cfg::main();
    cfg_on_parameter::main();
    crate_path::main();
    deny_warnings::main();
    doc_comment::main();
    every_parameter_kind::main();
    forbid_unsafe::main();
    generated_by_a_macro::main();
    hooks::main();
    inside_a_function::main();
    instrument::main();
    locked_all_arguments::main();
    locked_deny_warnings::main();
    locked_generated_by_a_macro::main();
    locked_generics::main();
    locked_methods::main();
    locked_no_implicit_prelude::main();
    locked_one_line_body::main();
    locked_other_attributes::main();
    locked_patterns::main();
    locked_return_types::main();
    locked_shadowed_names::main();
    modules::main();
    no_implicit_prelude::main();
    own_module_named_jobs::main();
    parameter_patterns::main();
    raw_identifier::main();
    return_types::main();
    shadowed_names::main();
    two_schedules_for_one_function::main();
    visibility::main();
}
