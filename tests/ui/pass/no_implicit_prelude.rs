#![no_implicit_prelude]

#[::jobs::singleton_job(key = "import-products", ttl = "60s")]
async fn import_products(_: ::jobs::Run) {}

pub(super) fn main() {}
