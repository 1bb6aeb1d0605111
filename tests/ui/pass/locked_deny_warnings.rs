//! Nothing that is generated may warn where it is used.
#![deny(warnings, missing_docs, unused, unreachable_pub, unused_qualifications, unused_results)]
#![deny(rust_2018_idioms, let_underscore_drop, missing_debug_implementations)]

use jobs::locked;

/// Charges the card.
#[locked(key = "payment:{order_id}")]
async fn charge(order_id: u64, mut amount: u32, _unused: u8) -> Result<u64, String> {
    amount += 1;
    if amount == 0 { Err("nothing".to_owned()) } else { Ok(order_id) }
}

#[locked(key = "nothing", within = "1h")]
async fn nothing() {}

#[locked(key = "endless")]
async fn endless() -> u8 {
    panic!("never");
}

#[locked(key = "only-in-the-key:{id}")]
async fn only_in_the_key(id: u64) {}

pub(super) fn main() {
    drop((charge(7, 1, 2), nothing(), endless(), only_in_the_key(7)));
}
