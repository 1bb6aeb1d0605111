use jobs::{State, singleton_job};

struct Db;

#[singleton_job(key = "import-products")]
async fn import_products(db: State<Db>) {
    drop(db);
}

fn main() {}
