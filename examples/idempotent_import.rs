//! An import that can run twice without duplicates, and whose writes are refused once a newer run has written.
//!
//!     cargo run --example idempotent_import
//!
//! At most one server runs the import of an hour. But a server can die half-way, so an import must be repeatable. And a
//! server can be suspended and continue after a newer import has run, so the database must refuse its late writes. Both
//! are a few lines of SQL.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use jobs::{Run, State, Timestamp, singleton_job};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

const SCHEMA: &str = "
    CREATE TABLE product (sku TEXT PRIMARY KEY, name TEXT NOT NULL, cents INTEGER NOT NULL);
    CREATE TABLE job_fence (job TEXT PRIMARY KEY, fence INTEGER NOT NULL);
";

/// The supplier's id is the key: a product that exists is updated, not added again.
const UPSERT: &str = "
    INSERT INTO product (sku, name, cents) VALUES (?1, ?2, ?3)
    ON CONFLICT (sku) DO UPDATE SET name = excluded.name, cents = excluded.cents
";

/// Changes no row if a newer run has written already.
const RAISE_FENCE: &str = "
    INSERT INTO job_fence (job, fence) VALUES (?1, ?2)
    ON CONFLICT (job) DO UPDATE SET fence = excluded.fence WHERE excluded.fence >= job_fence.fence
";

/// Pulls new products from the supplier.
#[singleton_job(key = "import-products", ttl = "10s", every = "0 * * * *")]
async fn import_products(
    State(shop): State<Shop>,
    State(supplier): State<Supplier>,
    State(done): State<UnboundedSender<Import>>,
    run: Run,
) -> anyhow::Result<()> {
    let import = Import { fence: run.fence(), products: supplier.fetch() };
    shop.write_guarded(run.key(), &import)?;
    println!("imported {} products with fence {}", import.products.len(), import.fence);
    done.send(import).context("the receiver was dropped")
}

/// The result of one run.
struct Import {
    fence: i64,
    products: Vec<Product>,
}

struct Product {
    sku: &'static str,
    name: &'static str,
    cents: i64,
}

/// The shop's database.
#[derive(Clone)]
struct Shop(Arc<Mutex<Connection>>);

impl Shop {
    fn open() -> anyhow::Result<Self> {
        let connection = Connection::open_in_memory()?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    /// Compares and raises the fence in the transaction that writes the products.
    fn write_guarded(&self, job: &str, import: &Import) -> anyhow::Result<()> {
        self.transaction(|tx| {
            let newest = tx.execute(RAISE_FENCE, params![job, import.fence])? == 1;
            ensure!(newest, "a newer run of {job} has written already");
            upsert(tx, &import.products)
        })
    }

    /// What not to do: the last write wins, however old its run is.
    fn write_unguarded(&self, import: &Import) -> anyhow::Result<()> {
        self.transaction(|tx| upsert(tx, &import.products))
    }

    fn count(&self) -> anyhow::Result<i64> {
        self.transaction(|tx| Ok(tx.query_row("SELECT count(*) FROM product", [], |row| row.get(0))?))
    }

    fn price(&self, sku: &str) -> anyhow::Result<i64> {
        self.transaction(|tx| {
            let found = tx.query_row("SELECT cents FROM product WHERE sku = ?1", [sku], |row| row.get(0));
            found.optional()?.with_context(|| format!("no product {sku}"))
        })
    }

    fn transaction<T>(&self, steps: impl FnOnce(&Transaction<'_>) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let mut connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let tx = connection.transaction()?;
        let result = steps(&tx)?; // an error rolls back
        tx.commit()?;
        Ok(result)
    }
}

fn upsert(tx: &Transaction<'_>, products: &[Product]) -> anyhow::Result<()> {
    let mut statement = tx.prepare(UPSERT)?;
    for Product { sku, name, cents } in products {
        statement.execute(params![sku, name, cents])?;
    }
    Ok(())
}

/// Stands for the supplier's API. The price of the teapot rises after the first request.
#[derive(Clone, Default)]
struct Supplier {
    requests: Arc<AtomicU32>,
}

impl Supplier {
    fn fetch(&self) -> Vec<Product> {
        let teapot = if self.requests.fetch_add(1, Ordering::Relaxed) == 0 { 1_900 } else { 2_100 };
        vec![
            Product { sku: "T-100", name: "teapot", cents: teapot },
            Product { sku: "T-200", name: "tea cup", cents: 600 },
            Product { sku: "T-300", name: "tea tray", cents: 2_400 },
        ]
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let (shop, supplier) = (Shop::open()?, Supplier::default());
    let namespace = format!("import-{}", Timestamp::now().as_micros()); // apart from earlier runs of this example
    let start = async |done| {
        let jobs = jobs::builder().or_embedded().namespace(&namespace).schedule("import-products", "1s");
        jobs.state(shop.clone()).state(supplier.clone()).state(done).start_all().await
    };

    // The import runs twice.
    let (done, mut imports) = unbounded_channel();
    let jobs = start(done).await?;
    let stale = next(&mut imports).await?;
    let fresh = next(&mut imports).await?;
    jobs.shutdown().await;
    println!(
        "after two imports: {} products, the teapot costs {} cents\n",
        shop.count()?,
        shop.price("T-100")?
    );
    ensure!(shop.count()? == 3, "the second import added duplicates");
    ensure!(shop.price("T-100")? == 2_100, "the second import did not update the price");
    ensure!(fresh.fence > stale.fence, "a later run must have a higher fence");

    // Suppose the server of the first import was suspended before it wrote, and continues now.
    let refusal =
        shop.write_guarded("import-products", &stale).err().context("a stale write was accepted")?;
    println!("stale write with fence:    refused, {refusal}");
    ensure!(shop.price("T-100")? == 2_100, "a refused write changed the price");

    shop.write_unguarded(&stale)?;
    println!("stale write without fence: accepted, the teapot costs {} cents again", shop.price("T-100")?);
    ensure!(shop.price("T-100")? == 1_900, "the write without a fence should have been accepted");

    // An import updates every product, whatever state it finds: the next one repairs the price.
    let (done, mut imports) = unbounded_channel();
    let jobs = start(done).await?;
    next(&mut imports).await?;
    jobs.shutdown().await;
    println!(
        "after the next import:     {} products, the teapot costs {} cents",
        shop.count()?,
        shop.price("T-100")?
    );
    ensure!(shop.count()? == 3 && shop.price("T-100")? == 2_100, "the next import did not repair the price");
    Ok(())
}

async fn next(imports: &mut UnboundedReceiver<Import>) -> anyhow::Result<Import> {
    let import = timeout(Duration::from_secs(20), imports.recv()).await.context("no import within 20 s")?;
    import.context("the jobs have ended")
}
