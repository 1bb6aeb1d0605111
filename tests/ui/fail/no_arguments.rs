use jobs::singleton_job;

#[singleton_job]
async fn import_products() {}

fn main() {}
