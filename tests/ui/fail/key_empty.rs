use jobs::singleton_job;

#[singleton_job(key = "")]
async fn import_products() {}

fn main() {}
