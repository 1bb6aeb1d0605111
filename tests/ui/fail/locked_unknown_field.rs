use jobs::locked;

struct Order {
    id: u64,
}

#[locked(key = "payment:{order.ident}")]
async fn charge(order: Order) -> u64 {
    order.id
}

fn main() {}
