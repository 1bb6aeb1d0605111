use jobs::locked;

#[locked(key = "payment:{order.id()}")]
async fn charge(order: String) {}

fn main() {}
