use jobs::singleton_job;

#[singleton_job(key = "import-products", "60s")]
async fn import_products() {}

fn main() {}
