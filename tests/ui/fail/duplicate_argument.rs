use jobs::singleton_job;

#[singleton_job(key = "import-products", ttl = "60s", ttl = "90s")]
async fn import_products() {}

fn main() {}
