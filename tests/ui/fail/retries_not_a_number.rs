use jobs::singleton_job;

#[singleton_job(key = "import-products", retries = "3")]
async fn import_products() {}

fn main() {}
