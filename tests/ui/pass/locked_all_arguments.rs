use jobs::locks::Locked;
use jobs::locked;

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
    let locked: Locked<()> = refund(7).await;
    locked.into_result()?;
    close().await.into_result()?;
    Ok(charge(7).await.into_result()??)
}

fn main() {
    drop(checkout());
}
