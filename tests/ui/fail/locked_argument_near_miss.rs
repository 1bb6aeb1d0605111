use jobs::locked;

#[locked(key = "payment:{order_id}", wihtin = "1h")]
async fn charge(order_id: u64) {}

#[locked(key = "payment:{order_id}", keepalive = false)]
async fn refund(order_id: u64) {}

fn main() {}
