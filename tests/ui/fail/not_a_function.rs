use jobs::singleton_job;

#[singleton_job(key = "import-products")]
struct ImportProducts;

fn main() {}
