use jobs::{locked, singleton_job};

#[singleton_job(key = "import-products")]
#[locked(key = "import-products")]
async fn import_products() {}

fn main() {}
