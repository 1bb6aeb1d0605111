use jobs::singleton_job;

#[singleton_job(key = "import-products", every = "@fortnightly")]
async fn import_products() {}

fn main() {}
