use jobs::singleton_job;

#[singleton_job(key = "import-products")]
fn import_products() {}

fn main() {}
