mod shop {
    #[jobs::singleton_job(key = "import-products", every = "@hourly")]
    async fn import() {}

    pub mod stock {
        #[jobs::singleton_job(key = "import-stock", every = "@hourly")]
        async fn import() {}
    }
}

pub(super) fn main() {
    let modules: Vec<_> = super::registered(module_path!()).iter().map(|job| job.module).collect();
    assert!(modules[0].ends_with("::shop"), "{modules:?}");
    assert!(modules[1].ends_with("::shop::stock"), "{modules:?}");
}
