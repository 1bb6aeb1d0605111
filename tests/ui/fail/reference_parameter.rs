use jobs::{Run, singleton_job};

#[singleton_job(key = "import-products")]
async fn import_products(run: &Run) {
    run.fence();
}

fn main() {}
