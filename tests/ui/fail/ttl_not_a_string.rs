use jobs::singleton_job;

#[singleton_job(key = "import-products", ttl = 60)]
async fn import_products() {}

fn main() {}
