use jobs::singleton_job;

#[singleton_job(
    key = "shop:import/products_v1.2",
    ttl = "1m 30s",
    every = "0 30 3 * * MON-FRI",
    tz = "Europe/Berlin",
    timeout = "10m",
    retries = 3,
    retry_delay = "250ms",
    overlap = "queue",
    missed = "run_once",
    on_crash = "retry",
    takeovers = 2,
    grace = "5m",
    jitter = "30s",
    keep_alive = true,
    on_lost = "cancel",
    pause_after = 5,
    on_success = ended,
    on_failure = ended,
    on_overdue = overdue,
    crate = ::jobs,
)]
async fn import_products() {}

async fn ended(_: jobs::events::EndedRun) {}

async fn overdue(_: jobs::events::OverdueTick) {}

#[singleton_job(key = "import-stock", every = "@daily", overlap = "skip", missed = "skip", on_crash = "skip")]
async fn import_stock() {}

#[singleton_job(key = r"import-prices", ttl = r#"5s"#, keep_alive = false, on_lost = "continue")]
async fn import_prices() {}

pub(super) fn main() {}
