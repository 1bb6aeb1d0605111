use jobs::singleton_job;

#[singleton_job(key = "import-products", every = "@hourly", takeovers = 2)]
async fn import_products() {}

fn main() {}
