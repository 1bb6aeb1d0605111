use jobs::singleton_job;

#[singleton_job(key = "import-products", ttl = "30days")]
async fn import_products() {}

fn main() {}
