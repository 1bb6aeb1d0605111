#![forbid(unsafe_code)]

#[jobs::singleton_job(key = "import-products", every = "10m")]
async fn import_products() {}

pub(super) fn main() {}
