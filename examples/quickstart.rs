//! The README's program. Start it in two terminals: each tick runs in one of them.
//!
//!     cargo run --example quickstart

use jobs::{Run, singleton_job};

/// Pulls new products from the supplier.
#[singleton_job(key = "import-products", ttl = "10s", every = "*/2 * * * * *")]
async fn import_products(run: Run) -> anyhow::Result<()> {
    println!("importing products on {} with fence {}", run.server(), run.fence());
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_env_filter("warn,jobs=debug").init();

    let jobs = jobs::start_all().await?;
    tokio::signal::ctrl_c().await?; // serve requests here
    jobs.shutdown().await;
    Ok(())
}
