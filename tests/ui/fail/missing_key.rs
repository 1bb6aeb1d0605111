use jobs::singleton_job;

#[singleton_job(every = "@hourly")]
async fn import_products() {}

fn main() {}
