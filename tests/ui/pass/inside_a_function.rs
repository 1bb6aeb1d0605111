pub(super) fn main() {
    #[jobs::singleton_job(key = "import-products")]
    async fn import_products() {}

    assert_eq!(super::registered(module_path!()).len(), 1);
}
