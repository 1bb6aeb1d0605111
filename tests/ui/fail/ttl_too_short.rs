use jobs::singleton_job;

#[singleton_job(key = "import-products", ttl = "500ms")]
async fn import_products() {}

fn main() {}
