use jobs::singleton_job;

#[singleton_job(key = "import-products")]
async fn import_products() -> Result<(), Box<dyn std::error::Error>> {
    Ok(())
}

fn main() {}
