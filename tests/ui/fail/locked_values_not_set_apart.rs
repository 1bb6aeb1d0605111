use jobs::locked;

#[locked(key = "payment:{shop}-{order_id}")]
async fn charge(shop: &str, order_id: u64) {}

fn main() {}
