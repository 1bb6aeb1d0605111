use jobs::singleton_job;

#[singleton_job(key = "import-products", priority = "high")]
async fn import_products() {}

fn main() {}
