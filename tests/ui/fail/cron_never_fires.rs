use jobs::singleton_job;

#[singleton_job(key = "import-products", every = "0 0 30 2 *")]
async fn import_products() {}

fn main() {}
