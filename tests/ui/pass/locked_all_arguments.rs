use jobs::locked;
use jobs::locks::NotRun;

#[locked(
    key = "payment:{order_id}",
    ttl = "30s",
    wait = "5s",
    within = "24h",
    keep_alive = true,
    crate = ::jobs,
)]
async fn charge(order_id: u64) -> Result<u64, String> {
    Ok(order_id)
}

#[locked(key = "payment:{order_id}", wait = "forever")]
async fn refund(order_id: u64) {
    assert!(order_id > 0);
}

#[locked(key = "payments")]
async fn close() {}

async fn checkout() -> Result<u64, Box<dyn std::error::Error>> {
    let refunded: Result<(), NotRun> = refund(7).await;
    refunded?;
    close().await?;
    Ok(charge(7).await??)
}

pub(super) fn main() {
    drop(checkout());
}
