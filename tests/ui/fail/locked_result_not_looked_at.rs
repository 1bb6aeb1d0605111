#![deny(unused_must_use)]

use jobs::locked;

#[locked(key = "payment:{order_id}")]
async fn charge(order_id: u64) {}

async fn checkout() {
    charge(7).await;
}

fn main() {
    drop(checkout());
}
