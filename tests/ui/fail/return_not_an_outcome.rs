use jobs::singleton_job;

#[singleton_job(key = "import-products")]
async fn import_products() -> u32 {
    7
}

fn main() {}
