use jobs::{Run, singleton_job};

#[singleton_job(ttl = "60", evry = "@hourly", retries = "3", retry_delay = "1s", overlap = "wait")]
fn import_products<T>(run: &Run) {
    run.fence();
}

fn main() {}
