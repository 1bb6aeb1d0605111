use jobs::{State, singleton_job};

#[singleton_job(key = "import-products")]
async fn import_products(db: State<impl Clone>) {
    drop(db);
}

fn main() {}
