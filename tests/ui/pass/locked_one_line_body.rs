//! A body of one expression gets no warning about braces that its author cannot remove.
#![deny(warnings, unused)]

use jobs::locked;

#[locked(key = "payment:{order_id}")]
async fn charge(order_id: u64) -> Result<u64, String> {
    Ok(order_id)
}

#[locked(key = "payment:{order_id}", within = "1h")]
async fn refund(order_id: u64) -> Result<u64, String> { Ok(order_id) }

#[locked(key = "opaque")]
async fn opaque() -> impl Sized { 7 }

#[locked(key = "number")]
async fn number() -> u8 { 7 }

#[locked(key = "block")]
async fn block() -> u8 {
    // An inner attribute and a comment stay where they are.
    #![allow(clippy::all)]
    7
}

pub(super) fn main() {
    drop((charge(7), refund(7), opaque(), number(), block()));
}
