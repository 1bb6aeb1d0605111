//! The least that a claim costs on PostgreSQL: one statement that works through a pooler, from a client that does nothing else.

use anyhow::Context;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls};

/// The prefix of a URL that is measured with bare statements.
pub const BARE: &str = "bare+";

pub struct Bare(Client);

const CLAIM: &str = "UPDATE claim_latency_bare SET tick = $1, holder = $2, until = clock_timestamp() + '60s' \
    WHERE key = 'one-copy' AND tick < $1 RETURNING tick";

impl Bare {
    /// `None` if the URL does not ask for it.
    pub async fn open(url: &str) -> anyhow::Result<Option<Self>> {
        let Some(url) = url.strip_prefix(BARE) else { return Ok(None) };
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.context("PostgreSQL")?;
        tokio::spawn(connection);
        // Ten workers do this at the same time; one of them may.
        let set_up = "BEGIN; SELECT pg_advisory_xact_lock(8213); CREATE TABLE IF NOT EXISTS claim_latency_bare \
            (key text PRIMARY KEY, tick bigint NOT NULL, holder integer, until timestamptz); \
            INSERT INTO claim_latency_bare VALUES ('one-copy', 0) ON CONFLICT DO NOTHING; COMMIT";
        client.batch_execute(set_up).await?;
        Ok(Some(Self(client)))
    }

    /// Whether this worker has won the tick.
    pub async fn claim(&self, tick: i64) -> anyhow::Result<bool> {
        let worker = std::process::id().cast_signed();
        let won = self.0.query_typed(CLAIM, &[(&tick, Type::INT8), (&worker, Type::INT4)]).await?;
        Ok(!won.is_empty())
    }

    pub async fn remove(&self) -> anyhow::Result<()> {
        Ok(self.0.batch_execute("DROP TABLE IF EXISTS claim_latency_bare").await?)
    }
}
