use jobs::singleton_job;

#[singleton_job(key = "import-products")]
async fn import_products() {
    let count = std::rc::Rc::new(7);
    std::future::ready(()).await;
    drop(count);
}

fn main() {}
