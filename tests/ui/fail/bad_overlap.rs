use jobs::singleton_job;

#[singleton_job(key = "import-products", every = "@hourly", overlap = "wait")]
async fn import_products() {}

fn main() {}
