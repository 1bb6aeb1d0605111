fn main() {
    #[jobs::singleton_job(key = "import-products")]
    async fn import_products() {}

    assert_eq!(jobs::__private::inventory::iter::<jobs::__private::Registration>.into_iter().count(), 1);
}
