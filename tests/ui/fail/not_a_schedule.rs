use jobs::singleton_job;

#[singleton_job(key = "import-products", every = "hourly")]
async fn import_products() {}

fn main() {}
