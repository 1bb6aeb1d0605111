use jobs::singleton_job;

#[singleton_job(key = "import-products", cron = "0 * * * *")]
async fn import_products() {}

fn main() {}
