//! A function that takes a lock before it runs: one call at a time for each order, and each order is charged once.
//!
//!     cargo run --example locked_function

use std::time::Duration;

use anyhow::{bail, ensure};
use jobs::locks::Locked;
use jobs::{Run, locked};
use tokio::time::sleep;

/// Charges the card. However often a customer clicks, and whichever servers get the clicks, it is done once a day.
#[locked(key = "payment:{order_id}", ttl = "10s", within = "24h")]
async fn charge(order_id: u64, card: &str) -> anyhow::Result<String> {
    sleep(Duration::from_millis(200)).await; // the bank takes its time
    ensure!(card.starts_with("41"), "the card {card} was declined");
    let fence = Run::current().map(|run| run.fence());
    Ok(format!("receipt for order {order_id} under fence {fence:?}"))
}

struct Warehouse {
    name: &'static str,
}

impl Warehouse {
    /// Packs what was ordered: one parcel at a time in each warehouse, the others wait.
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
    let (one, two) = (told("first click", one)?, told("second click", two)?);
    ensure!(one != two, "one click should have charged, and one not");
    ensure!(!told("third click", charge(7, "4111").await)?, "it was charged already");

    let declined = charge(8, "9999").await.into_result()?;
    println!("order 8: {}", declined.expect_err("not a card that is accepted"));
    println!("order 8: {}", charge(8, "4111").await.into_result()??); // an error leaves it to be done

    let warehouse = Warehouse { name: "north" };
    let (one, two) = tokio::join!(warehouse.pack(7), warehouse.pack(8));
    ensure!(one.is_ran() && two.is_ran(), "both should have been packed: {one:?}, {two:?}");
    jobs.shutdown().await;
    Ok(())
}

/// Says what became of a click, and whether it charged.
fn told(click: &str, charged: Locked<anyhow::Result<String>>) -> anyhow::Result<bool> {
    let ran = charged.is_ran();
    match charged {
        Locked::Ran(receipt) => println!("{click}: {}", receipt?),
        Locked::Held { holder, .. } => {
            println!("{click}: {} is charging", holder.server.as_deref().unwrap_or("another program"));
        }
        Locked::AlreadyDone { at, .. } => println!("{click}: it was charged at {at}"),
        Locked::Failed(error) => return Err(error.into()),
        other => bail!("{click}: {other:?}"),
    }
    Ok(ran)
}
