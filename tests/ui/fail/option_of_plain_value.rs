use jobs::singleton_job;

#[singleton_job(key = "import-products")]
async fn import_products(limit: Option<u32>) {
    drop(limit);
}

fn main() {}
