use jobs::singleton_job;

#[singleton_job(key = "import-products", every = "@hourly", pause_after = 0)]
async fn import_products() {}

fn main() {}
