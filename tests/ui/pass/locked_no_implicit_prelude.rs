#![no_implicit_prelude]

#[::jobs::locked(key = "payment:{order_id}", within = "1h")]
async fn charge(order_id: u64) -> () {}

pub(super) fn main() {}
