use jobs::locked;

#[locked(key = "payment:{order_id}")]
async fn charge(order_id: Vec<u8>) {}

fn main() {}
