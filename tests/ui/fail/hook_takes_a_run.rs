use jobs::{Run, singleton_job};

#[singleton_job(key = "import-products", on_failure = alert_on_call)]
async fn import_products() {}

async fn alert_on_call(run: Run) {
    let _ = run;
}

fn main() {}
