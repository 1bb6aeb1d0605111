use jobs::locked;

#[locked(key = "payment:{}")]
async fn charge(order_id: u64) {}

fn main() {}
