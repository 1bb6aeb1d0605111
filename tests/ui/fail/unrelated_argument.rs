use jobs::singleton_job;

#[singleton_job(key = "import-products", schedule = "1h")]
async fn import_products() {}

fn main() {}
