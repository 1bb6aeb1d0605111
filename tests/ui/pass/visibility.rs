mod shop {
    use jobs::singleton_job;

    #[singleton_job(key = "import-products")]
    pub async fn import_products() {}

    #[singleton_job(key = "import-stock")]
    pub(crate) async fn import_stock() {}

    #[singleton_job(key = "import-prices")]
    pub(super) async fn import_prices() {}

    #[singleton_job(key = "import-images")]
    pub(in crate::visibility::shop) async fn import_images() {}
}

pub(super) fn main() {
    drop((shop::import_products(), shop::import_stock(), shop::import_prices()));
}
