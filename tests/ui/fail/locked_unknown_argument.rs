use jobs::locked;

#[locked(key = "payment:{order_id}", every = "1h")]
async fn charge(order_id: u64) {}

fn main() {}
