use jobs::singleton_job;

#[singleton_job(key = "import-products", retry_delay = "1s")]
async fn import_products() {}

fn main() {}
