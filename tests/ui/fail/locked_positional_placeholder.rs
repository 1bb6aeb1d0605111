use jobs::locked;

#[locked(key = "payment:{0}")]
async fn charge(order_id: u64) {}

fn main() {}
