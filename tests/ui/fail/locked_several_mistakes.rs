use jobs::locks::Locked;
use jobs::locked;

#[locked(key = "payment:{shop}:{oder_id}", ttl = 30, wait = "5")]
async fn charge(order_id: u64) -> u64 {
    order_id
}

async fn checkout() -> Locked<u64> {
    charge(7).await
}

fn main() {
    drop(checkout());
}
