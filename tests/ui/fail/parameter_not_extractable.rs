use jobs::singleton_job;

struct Db;

#[singleton_job(key = "import-products")]
async fn import_products(db: Db) {
    drop(db);
}

fn main() {}
