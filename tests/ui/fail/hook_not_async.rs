use jobs::events::EndedRun;
use jobs::singleton_job;

#[singleton_job(key = "import-products", on_success = ping_monitor)]
async fn import_products() {}

fn ping_monitor(run: EndedRun) {
    let _ = run;
}

fn main() {}
