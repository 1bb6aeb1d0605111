use jobs::locked;

#[locked(key = "payment:{order_id}", within = "24h")]
async fn charge(order_id: u64) -> u64 {
    order_id
}

fn main() {}
