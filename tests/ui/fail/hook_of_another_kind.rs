use jobs::events::EndedRun;
use jobs::singleton_job;

#[singleton_job(key = "import-products", on_success = alerts::ping, on_overdue = alerts::ping)]
async fn import_products() {}

mod alerts {
    pub async fn ping(run: super::EndedRun) {
        let _ = run;
    }
}

fn main() {}
