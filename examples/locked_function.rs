//! A function that runs under a lock: one call at a time for each order, and each order is charged once.
//!
//!     cargo run --example locked_function

use std::time::Duration;

use anyhow::ensure;
use jobs::locks::NotRun;
use jobs::{Run, locked};
use tokio::time::sleep;

/// Charges the card once a day, however often a customer clicks, and whichever server gets the click.
#[locked(key = "payment:{order_id}", ttl = "10s", within = "24h")]
async fn charge(order_id: u64, card: &str) -> anyhow::Result<String> {
    sleep(Duration::from_millis(200)).await; // a slow bank
    ensure!(card.starts_with("41"), "the card {card} was declined");
    let fence = Run::current().map(|run| run.fence());
    Ok(format!("receipt for order {order_id} under fence {fence:?}"))
}

struct Warehouse {
    name: &'static str,
}

impl Warehouse {
    /// Packs an order. Each warehouse packs one order at a time; other calls wait.
    #[locked(key = "warehouse:{self.name}", wait = "10s")]
    async fn pack(&self, order_id: u64) {
        println!("{}: packing order {order_id}", self.name);
        sleep(Duration::from_millis(100)).await;
        println!("{}: order {order_id} is packed", self.name);
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // In production `jobs::start_all()`, with `JOBS_URL` for a store that all servers share.
    let jobs = jobs::connect("memory://locked-function").await?;

    let (one, two) = tokio::join!(charge(7, "4111"), charge(7, "4111"));
    let (one, two) = (report("first click", one)?, report("second click", two)?);
    ensure!(one != two, "one click should have charged, and one not");
    ensure!(!report("third click", charge(7, "4111").await)?, "it was charged before");

    let declined = charge(8, "9999").await?;
    println!("order 8: {}", declined.expect_err("the bank declines this card"));
    println!("order 8: {}", charge(8, "4111").await??); // after an error the next call runs

    let warehouse = Warehouse { name: "north" };
    let (one, two) = tokio::join!(warehouse.pack(7), warehouse.pack(8));
    one.and(two)?; // both were packed
    jobs.shutdown().await;
    Ok(())
}

/// Prints the result of a click, and returns whether it charged.
fn report(click: &str, charged: Result<anyhow::Result<String>, NotRun>) -> anyhow::Result<bool> {
    match charged {
        Ok(receipt) => {
            println!("{click}: {}", receipt?);
            return Ok(true);
        }
        Err(NotRun::Held { holder, .. }) => {
            println!("{click}: {} is charging", holder.server.as_deref().unwrap_or("another program"));
        }
        Err(NotRun::AlreadyDone { at, .. }) => println!("{click}: it was charged at {at}"),
        Err(error) => return Err(error.into()),
    }
    Ok(false)
}
