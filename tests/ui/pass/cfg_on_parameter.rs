#![deny(warnings)]

use jobs::{Run, State, singleton_job};

#[singleton_job(key = "import-products")]
async fn import_products(#[cfg(any())] db: Missing, #[cfg(not(any()))] run: Run, State(limit): State<u32>) {
    drop((run, limit));
}

#[singleton_job(key = "import-stock")]
async fn import_stock(#[cfg(any())] db: Missing) {}

pub(super) fn main() {
    drop(import_products(Run::detached("import-products"), State(7)));
}
