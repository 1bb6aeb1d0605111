#![deny(warnings)]

use jobs::{Run, State, singleton_job};

#[derive(Clone)]
struct Db {
    url: String,
    pool: u32,
}

#[singleton_job(key = "import-products")]
async fn import_products(
    State(Db { url, pool: mut free }): State<Db>,
    mut limit: Option<State<u32>>,
    #[allow(unused_variables)] run: Run,
    _: Run,
) {
    free += 1;
    limit.take();
    drop((url, free));
}

pub(super) fn main() {}
