use jobs::locked;

#[locked(ttl = "30s")]
async fn charge(order_id: u64) {}

fn main() {}
