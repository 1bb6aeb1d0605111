use jobs::locked;

/// Charges the card.
#[locked(key = "payment:{order_id}")]
#[tracing::instrument(skip(secret))]
pub async fn below(order_id: u64, secret: &str) -> Result<(), std::io::Error> {
    std::fs::metadata(secret)?;
    Ok(())
}

#[tracing::instrument]
#[locked(key = "payment:{order_id}")]
pub(crate) async fn above(order_id: u64, #[allow(unused)] other: u8) {}

#[cfg(any())]
#[locked(key = "payment")]
async fn left_out(not: Known) {}

#[locked(key = "payment:{order_id}")]
#[cfg_attr(all(), allow(unused_variables))]
async fn conditional(order_id: u64, #[cfg(any())] missing: Unknown, other: u8) {}

pub(super) fn main() {}
