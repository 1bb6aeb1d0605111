use jobs::singleton_job;

#[singleton_job(key = "import-products")]
async extern "C" fn import_products() {}

fn main() {}
