use jobs::singleton_job;

#[singleton_job(key = "import-products", tz = "Europe/Berlin")]
async fn import_products() {}

fn main() {}
