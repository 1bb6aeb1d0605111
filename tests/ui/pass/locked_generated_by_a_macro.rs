use jobs::locked;

macro_rules! charge {
    ($name:ident, $id:ident: $type:ty, $key:literal) => {
        #[locked(key = $key)]
        async fn $name($id: $type) -> $type {
            $id
        }
    };
}

macro_rules! order {
    ($name:ident, $order:ident) => {
        #[locked(key = "order:{order.0}")]
        async fn $name($order: (u64,)) -> u64 {
            $order.0
        }
    };
}

charge!(charge, order_id: u64, "payment:{order_id}");
order!(ship, order);

pub(super) fn main() {}
