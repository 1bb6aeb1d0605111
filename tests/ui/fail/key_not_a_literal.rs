use jobs::singleton_job;

#[singleton_job(key = concat!("import", "-products"))]
async fn import_products() {}

fn main() {}
