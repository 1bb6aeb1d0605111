//! The least that a claim costs on PostgreSQL, from a client that does nothing else: one statement in which the database decides,
//! or one that reads and one that compares and writes, as every store of this crate does.

use anyhow::Context;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls};

/// The prefixes of URLs that are measured with bare statements: one, and two.
const ONE: &str = "bare+";
const TWO: &str = "bare-2+";
pub const PREFIXES: [&str; 2] = [ONE, TWO];

pub struct Bare {
    client: Client,
    looks_first: bool,
}

/// The URL of the database itself.
pub fn without_prefix(url: &str) -> &str {
    PREFIXES.iter().find_map(|prefix| url.strip_prefix(prefix)).unwrap_or(url)
}

const LOOK: &str = "SELECT tick, clock_timestamp() FROM claim_latency_bare WHERE key = 'one-copy'";

const SWAP: &str = "UPDATE claim_latency_bare SET tick = $1, holder = $2, until = clock_timestamp() + '60s' \
    WHERE key = 'one-copy' AND tick = $3 RETURNING tick";

const CLAIM: &str = "UPDATE claim_latency_bare SET tick = $1, holder = $2, until = clock_timestamp() + '60s' \
    WHERE key = 'one-copy' AND tick < $1 RETURNING tick";

impl Bare {
    /// `None` if the URL does not ask for it.
    pub async fn open(url: &str) -> anyhow::Result<Option<Self>> {
        let looks_first = url.starts_with(TWO);
        if !looks_first && !url.starts_with(ONE) {
            return Ok(None);
        }
        let url = without_prefix(url);
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.context("PostgreSQL")?;
        tokio::spawn(connection);
        // Ten workers do this at the same time; one of them may.
        let set_up = "BEGIN; SELECT pg_advisory_xact_lock(8213); CREATE TABLE IF NOT EXISTS claim_latency_bare \
            (key text PRIMARY KEY, tick bigint NOT NULL, holder integer, until timestamptz); \
            INSERT INTO claim_latency_bare VALUES ('one-copy', 0) ON CONFLICT DO NOTHING; COMMIT";
        client.batch_execute(set_up).await?;
        Ok(Some(Self { client, looks_first }))
    }

    /// Whether this worker has won the tick.
    pub async fn claim(&self, tick: i64) -> anyhow::Result<bool> {
        let worker = std::process::id().cast_signed();
        if !self.looks_first {
            let won = self.client.query_typed(CLAIM, &[(&tick, Type::INT8), (&worker, Type::INT4)]).await?;
            return Ok(!won.is_empty());
        }
        let look = self.client.query_typed(LOOK, &[]).await?;
        let seen: i64 = look.first().context("the row of the key is gone")?.get(0);
        if seen >= tick {
            return Ok(false);
        }
        let expected = [(&tick as _, Type::INT8), (&worker as _, Type::INT4), (&seen as _, Type::INT8)];
        let won = self.client.query_typed(SWAP, &expected).await?;
        Ok(!won.is_empty())
    }

    pub async fn remove(&self) -> anyhow::Result<()> {
        Ok(self.client.batch_execute("DROP TABLE IF EXISTS claim_latency_bare").await?)
    }
}
