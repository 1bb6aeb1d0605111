use std::sync::Arc;

use jobs::locked;
use jobs::locks::NotRun;

struct Shop {
    shard: u8,
    sold: u32,
}

impl Shop {
    #[locked(key = "shop:{self.shard}")]
    async fn look(&self) -> u32 {
        self.sold
    }

    #[locked(key = "shop:{self.shard}")]
    async fn sell(&mut self) -> &mut u32 {
        self.sold += 1;
        &mut self.sold
    }

    #[locked(key = "shop:{self.shard}")]
    async fn close(self) -> Self {
        self
    }

    #[locked(key = "shop:{self.shard}:{id}")]
    async fn share(self: Arc<Self>, id: u32) -> Arc<Self> {
        self
    }

    #[locked(key = "shop:{self.shard}")]
    async fn name<'a>(&self, name: &'a str) -> Option<&'a str> {
        Some(name)
    }
}

trait Import {
    async fn import(&self, supplier: &str) -> Result<Result<(), String>, NotRun>;

    #[locked(key = "import-default")]
    async fn import_default(&self) -> u8 {
        7
    }
}

impl Import for Shop {
    #[locked(key = "import:{self.shard}/{supplier}", within = "1h")]
    async fn import(&self, supplier: &str) -> Result<(), String> {
        Err(supplier.to_owned())?;
        Ok(())
    }
}

pub(super) fn main() {}
