mod jobs {
    use ::jobs::{Run, singleton_job};

    #[singleton_job(key = "import-products")]
    pub async fn import_products(run: Run) {
        run.fence();
    }
}

use ::jobs::singleton_job;

#[singleton_job(key = "import-stock")]
async fn import_stock() {}

pub(super) fn main() {
    drop(jobs::import_products(::jobs::Run::detached("import-products")));
}
