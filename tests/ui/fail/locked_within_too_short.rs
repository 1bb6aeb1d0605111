use jobs::locked;

#[locked(key = "payment:{order_id}", within = "0s")]
async fn charge(order_id: u64) {}

fn main() {}
