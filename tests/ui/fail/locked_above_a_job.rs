use jobs::{locked, singleton_job};

#[locked(key = "import-products")]
#[singleton_job(key = "import-products")]
async fn import_products() {}

fn main() {}
