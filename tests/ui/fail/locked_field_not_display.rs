use jobs::locked;

struct Order {
    id: Option<u64>,
}

#[locked(key = "payment:{order.id}")]
async fn charge(order: Order) {}

fn main() {}
