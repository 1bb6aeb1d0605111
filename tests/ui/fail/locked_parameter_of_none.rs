use jobs::locked;

#[locked(key = "payment:{order_id}")]
async fn charge() {}

fn main() {}
