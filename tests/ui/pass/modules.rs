mod shop {
    #[jobs::singleton_job(key = "import-products", every = "@hourly")]
    async fn import() {}

    pub mod stock {
        #[jobs::singleton_job(key = "import-stock", every = "@hourly")]
        async fn import() {}
    }
}

use jobs::__private::{Registration, inventory};

fn main() {
    let mut modules: Vec<_> = inventory::iter::<Registration>.into_iter().map(|job| job.module).collect();
    modules.sort_unstable();
    assert!(modules[0].ends_with("::shop"), "{modules:?}");
    assert!(modules[1].ends_with("::shop::stock"), "{modules:?}");
}
