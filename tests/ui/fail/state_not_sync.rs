use jobs::{State, singleton_job};

use std::cell::Cell;

#[singleton_job(key = "import-products")]
async fn import_products(db: State<Cell<u32>>) {
    drop(db);
}

fn main() {}
