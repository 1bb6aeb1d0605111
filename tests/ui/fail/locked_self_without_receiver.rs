use jobs::locked;

struct Shop;

impl Shop {
    #[locked(key = "shop:{self.shard}")]
    async fn open(shard: u8) -> Self {
        Self
    }
}

fn main() {}
