use jobs::singleton_job;

#[singleton_job(key = "import-products", timeout = "0s")]
async fn import_products() {}

fn main() {}
