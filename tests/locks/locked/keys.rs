//! Different values make different keys.

use std::cell::Cell;

use jobs::{Run, locked};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::kit::server;

#[locked(key = "k:{one}:{two}/{three}")]
async fn key_of(one: &str, two: &str, three: &str) -> String {
    Run::current().unwrap().key().to_owned()
}

/// The key without escapes: the control.
fn naive(one: &str, two: &str, three: &str) -> String {
    format!("k:{one}:{two}/{three}")
}

type Values = (String, String, String);

/// Mostly text that looks like a separator, an escape or a hash; sometimes any text, sometimes long text.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => "[.:/A-Fa-f0-9]{0,3}",
        2 => any::<String>(),
        1 => "[.a:]{110,140}",
        1 => "x{0,1}[ab]{1000}",
    ]
}

#[tokio::test]
async fn special_characters_in_values_are_escaped_in_the_key() {
    let jobs = server("odd").await;
    jobs.scope(async {
        for (values, expected) in [
            (("", "", ""), "k::/"),
            (("", "a", ""), "k::a/"),
            (("a:b", "c", "d"), "k:a.3Ab:c/d"),
            (("a", "b:c", "d"), "k:a:b.3Ac/d"),
            (("ü", " ", "\0"), "k:.C3.BC:.20/.00"),
            (("{x}", "..", "a/b"), "k:.7Bx.7D:..../a.2Fb"),
        ] {
            let (one, two, three) = values;
            assert_eq!(key_of(one, two, three).await.unwrap(), expected);
        }
        let long = key_of(&"é".repeat(1000), "", "").await.unwrap();
        assert!(long.starts_with("k:.C3.A9.C3.A9") && long.len() == 128, "{long}");
    })
    .await;
}

#[test]
fn different_values_make_different_keys() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let jobs = runtime.block_on(server("property"));
    let key =
        |(one, two, three): &Values| runtime.block_on(jobs.scope(key_of(one, two, three))).expect("it ran");
    let clashes = Cell::new(0);
    let values = || (text(), text(), text());
    let outcome = TestRunner::default().run(&(values(), values()), |(left, right)| {
        prop_assert_eq!(left == right, key(&left) == key(&right));
        Ok(())
    });
    outcome.unwrap();

    // The control: a separator that moves from one value to the next, which random pairs rarely have.
    let moved = ("[a:]{1,2}", "[a:]{0,2}").prop_map(|(one, two)| {
        let (moved, rest) = one.split_at(1);
        let (moved, rest) = (moved.to_owned(), rest.to_owned());
        ((format!("{moved}:{rest}"), two.clone()), (moved, format!("{rest}:{two}")))
    });
    let outcome = TestRunner::default().run(&moved, |(left, right)| {
        let [left, right] = [left, right].map(|(one, two)| (one, two, String::new()));
        let clash = left != right && naive(&left.0, &left.1, "") == naive(&right.0, &right.1, "");
        clashes.set(clashes.get() + u32::from(clash));
        prop_assert_eq!(left == right, key(&left) == key(&right));
        Ok(())
    });
    outcome.unwrap();
    let clashes = clashes.get();
    assert!(clashes > 100, "only {clashes} pairs would have clashed without the escapes");
}
