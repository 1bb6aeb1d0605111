use jobs::locked;

#[locked(key = "payment:{oder_id}")]
async fn charge(order_id: u64, amount: u32) {}

fn main() {}
