use jobs::locked;

#[locked(key = "payment:{order_id}", ttl = "500ms")]
async fn charge(order_id: u64) {}

fn main() {}
