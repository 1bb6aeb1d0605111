//! Which promise is kept on which stores. Each promise is one test, whose stores are side by side: such tests are mostly
//! waiting.
//!
//! `JOBS_TEST_HOMES=all cargo test --test processes --test naive_control` leaves no store out.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::home::Kind;

/// The stores of a list of promises.
pub struct Homes {
    always: &'static [Kind],
    /// Only with `JOBS_TEST_HOMES=all`, because processes take their time to start.
    at_length: &'static [Kind],
}

/// On all stores, every time.
pub const EVERYWHERE: Homes = Homes { always: Kind::ALL, at_length: &[] };

/// On Redis and PostgreSQL every time, and at length on all others.
pub const EVERYWHERE_AT_LENGTH: Homes = Homes {
    always: &[Kind::Redis, Kind::Postgres],
    at_length: &[Kind::Pooled, Kind::Sentinel, Kind::Cluster, Kind::File, Kind::Sqlite, Kind::Mysql],
};

/// For what keeps a small machine busy on one store already.
pub const ON_REDIS: Homes = Homes { always: &[Kind::Redis], at_length: &[Kind::Postgres] };

/// For what stops the server itself, every time: a folder has none.
pub const ON_EVERY_SERVER: Homes = Homes {
    always: &[Kind::Redis, Kind::Postgres, Kind::Pooled, Kind::Sentinel, Kind::Cluster, Kind::Mysql],
    at_length: &[],
};

/// For what kills the server itself, or its connections.
pub const ON_EVERY_SERVER_AT_LENGTH: Homes = Homes {
    always: &[Kind::Redis, Kind::Postgres],
    at_length: &[Kind::Pooled, Kind::Sentinel, Kind::Cluster, Kind::Mysql],
};

/// For what has to be over before a lease of a second and a half is. The nodes of a cluster need
/// longer if all of them restart; what becomes of a run when one dies is in `redis_topologies`.
pub const ON_SERVERS_THAT_ARE_BACK_AT_ONCE: Homes =
    Homes { always: &[Kind::Redis, Kind::Postgres], at_length: &[Kind::Pooled, Kind::Sentinel, Kind::Mysql] };

/// The list of what is promised, and where: each becomes a test.
#[macro_export]
macro_rules! promises {
    ($($homes:ident { $($promises:ident::$promise:ident;)+ })+) => { $( $(
        #[test]
        fn $promise() {
            $crate::promises::$homes.keep($promises::$promise);
        }
    )+ )+ };
}

impl Homes {
    pub fn keep(&self, promise: fn(Kind)) {
        let (chosen, left_out) = self.choose();
        println!("on {chosen:?}; not this time on {left_out:?}");
        let kept = |kind: Kind| {
            move || {
                let kept = catch_unwind(AssertUnwindSafe(|| promise(kind)));
                kept.inspect_err(|_| eprintln!("the promise was broken on {kind:?}"))
            }
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> = chosen.iter().map(|kind| scope.spawn(kept(*kind))).collect();
            running.into_iter().map(|thread| thread.join().expect("caught before")).collect()
        });
        for result in results {
            result.unwrap_or_else(|panic| resume_unwind(panic));
        }
    }

    fn choose(&self) -> (Vec<Kind>, &'static [Kind]) {
        match std::env::var("JOBS_TEST_HOMES").as_deref() {
            Err(_) => (self.always.to_vec(), self.at_length),
            Ok("all") => ([self.always, self.at_length].concat(), &[]),
            Ok(other) => panic!("JOBS_TEST_HOMES is \"all\" or not set, not {other:?}"),
        }
    }
}
