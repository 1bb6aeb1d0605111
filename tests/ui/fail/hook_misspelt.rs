use jobs::singleton_job;

#[singleton_job(key = "import-products", on_fail = alert_on_call)]
async fn import_products() {}

fn main() {}
