#![deny(warnings)]

use jobs::events::{EndedRun, OverdueTick};
use jobs::{State, singleton_job};

#[singleton_job(
    key = "import-products",
    on_success = monitor::ping,
    on_failure = self::alert_on_call,
    on_overdue = crate::hooks::late
)]
async fn import_products() {}

async fn alert_on_call(run: EndedRun, State(pager): State<String>) -> Result<(), std::io::Error> {
    let _ = (run.key, run.record.outcome, run.record.error, pager);
    Ok(())
}

async fn late(tick: OverdueTick, _: State<u8>, _: State<u16>, _: State<u32>) {
    let _ = (tick.key, tick.tick, tick.server);
}

mod monitor {
    pub async fn ping(_: jobs::events::EndedRun) {}
}

pub(super) fn main() {}
