use jobs::singleton_job;

#[singleton_job(key = "import-products", every = "1ms")]
async fn import_products() {}

fn main() {}
