use jobs::locked;

#[locked(key = "payment of {order_id}")]
async fn charge(order_id: u64) {}

fn main() {}
