use jobs::locked;

#[locked(key = "payment:{order_id}")]
async fn charge<T>(order_id: T) {}

fn main() {}
