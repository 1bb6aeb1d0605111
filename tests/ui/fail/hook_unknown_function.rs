use jobs::singleton_job;

#[singleton_job(key = "import-products", on_failure = alert_on_cal)]
async fn import_products() {}

fn main() {}
