//! What compiles, and what every mistake in a job looks like to the one who made it.

#[test]
fn every_mistake_is_reported_where_it_was_made() {
    trybuild::TestCases::new().compile_fail("fail/*.rs");
}

#[test]
fn job_compiles_wherever_a_function_does() {
    trybuild::TestCases::new().pass("pass/*.rs");
}
