use jobs::singleton_job;

#[singleton_job(key = "import-products")]
async unsafe fn import_products() {}

fn main() {}
