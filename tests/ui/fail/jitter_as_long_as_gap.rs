use jobs::singleton_job;

#[singleton_job(key = "import-products", every = "1m", jitter = "1m")]
async fn import_products() {}

fn main() {}
