use jobs::singleton_job;

#[singleton_job(key = "import-products")]
const fn import_products() {}

fn main() {}
