use jobs::singleton_job;

#[singleton_job(key = "import-products", timeout = "2m", keep_alive = false)]
async fn import_products() {}

fn main() {}
