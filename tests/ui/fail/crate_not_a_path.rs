use jobs::singleton_job;

#[singleton_job(key = "import-products", crate = "my::jobs")]
async fn import_products() {}

fn main() {}
