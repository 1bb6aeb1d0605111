use jobs::singleton_job;

struct Shop;

impl Shop {
    #[singleton_job(key = "import-products")]
    async fn import_products(&self) {}
}

fn main() {}
