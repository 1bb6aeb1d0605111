use jobs::locked;
use jobs::locks::NotRun;

#[locked(key = "payment:{shop}:{oder_id}", ttl = 30, wait = "5")]
async fn charge(order_id: u64) -> u64 {
    order_id
}

async fn checkout() -> Result<u64, NotRun> {
    charge(7).await
}

fn main() {
    drop(checkout());
}
