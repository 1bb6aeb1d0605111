use jobs::singleton_job;

#[singleton_job(key = "import-products", retries = 3s)]
async fn import_products() {}

fn main() {}
