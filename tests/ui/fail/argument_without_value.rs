use jobs::singleton_job;

#[singleton_job(key = "import-products", ttl)]
async fn import_products() {}

fn main() {}
