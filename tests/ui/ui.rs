//! What every mistake in a job looks like to the one who made it.

#[test]
fn every_mistake_is_reported_where_it_was_made() {
    trybuild::TestCases::new().compile_fail("fail/*.rs");
}
