use jobs::singleton_job;

struct Failure;

#[singleton_job(key = "import-products")]
async fn import_products() -> Result<(), Failure> {
    Ok(())
}

fn main() {}
