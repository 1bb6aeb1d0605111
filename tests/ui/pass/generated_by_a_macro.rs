use jobs::{Run, singleton_job};

macro_rules! import {
    ($name:ident, $key:literal, $every:expr, $retries:expr, $run:ty) => {
        #[singleton_job(key = $key, every = $every, retries = $retries)]
        async fn $name(run: $run) -> Result<(), String> {
            drop(run);
            Ok(())
        }
    };
}

import!(import_products, "import-products", "@hourly", 3, Run);
import!(import_stock, "import-stock", "10m", 0, jobs::Run);

pub(super) fn main() {}
