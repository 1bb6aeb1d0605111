use jobs::singleton_job;

#[singleton_job(key = "import-products", every = "0 3 * * *", tz = "Europe/Atlantis")]
async fn import_products() {}

fn main() {}
