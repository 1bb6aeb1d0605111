use std::sync::Arc;

use jobs::{Run, State, singleton_job};

#[derive(Clone)]
struct Db;

#[singleton_job(key = "none")]
async fn none() {}

#[singleton_job(key = "all")]
async fn all(
    run: Run,
    State(db): State<Db>,
    limit: Option<State<u32>>,
    State(name): State<&'static str>,
    shared: State<Arc<std::sync::Mutex<Vec<u8>>>>,
    qualified: ::jobs::State<(u8, [u16; 4])>,
    again: Run,
) {
    drop((run, db, limit, name, shared, qualified, again));
}

type Database = State<Db>;

#[singleton_job(key = "alias")]
async fn alias(db: Database) {
    drop(db);
}

pub(super) fn main() {}
