use jobs::singleton_job;

#[singleton_job(key = "import-products", crate = crate::nowhere)]
async fn import_products() {}

fn main() {}
