use jobs::singleton_job;

#[singleton_job(key = "import-products", every = "@hourly", on_crash = "retry", on_lost = "continue")]
async fn import_products() {}

fn main() {}
