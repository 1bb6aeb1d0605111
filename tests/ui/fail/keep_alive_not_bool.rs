use jobs::singleton_job;

#[singleton_job(key = "import-products", keep_alive = "no")]
async fn import_products() {}

fn main() {}
