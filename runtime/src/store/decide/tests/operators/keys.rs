//! Every valid key is a separate key.

use crate::store::decide::tests::subject;
use crate::testing::store::bench::{Bench, LONG, claim_now, holder};

#[tokio::test(start_paused = true)]
async fn odd_keys_are_separate_keys() {
    let subject = &subject();
    let long = "k".repeat(128);
    let almost_as_long = format!("{}l", "k".repeat(127));
    let keys = [
        "..",
        ".",
        "a",
        "A",
        "a/b",
        "a/../b",
        "b",
        "/a",
        "a/",
        "-x",
        "--",
        "a:b",
        "a_b",
        "a.b",
        "con",
        "x.lock",
        "x",
        long.as_str(),
        almost_as_long.as_str(),
    ];
    for key in keys {
        let lease = Bench::with_key(subject, key).win(&claim_now(key, LONG)).await;
        assert_eq!(*lease.server, *key);
    }
    for key in keys {
        let held = holder(Bench::with_key(subject, key).claim(&claim_now("late", LONG)).await);
        assert_eq!(held.server.as_deref(), Some(key));
    }
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_separate() {
    let subject = &subject();
    let bench = |namespace| Bench::in_namespace(subject, namespace);
    let (plain, blue, green) = (Bench::of(subject), bench("blue"), bench("green"));
    for bench in [&plain, &blue, &green] {
        bench.win(&claim_now("a", LONG)).await;
    }
    holder(bench("blue").claim(&claim_now("b", LONG)).await);
}
