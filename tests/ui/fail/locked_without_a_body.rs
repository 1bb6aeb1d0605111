use jobs::locked;

trait Payment {
    #[locked(key = "payment:{order_id}")]
    async fn charge(&self, order_id: u64);
}

fn main() {}
