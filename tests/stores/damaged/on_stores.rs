//! Damaged records on real stores: what a look, a claim and a history make of them.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fuzz::{Target, Verdict};
use jobs::Timestamp;
use jobs::store::file::FileStore;
use jobs::store::postgres::PostgresStore;
use jobs::store::redis::RedisStore;
use jobs::store::{
    JobRecords, Look, Note, Notes, Page, Store, StoreErrorKind, StoreFuture, Swap, SwapReply, Topic,
};
use jobs::testing::store::Client;
use serde_json::Value;
use support::folder::TempFolder;
use support::postgres_server::{self, PostgresServer};
use support::redis_server::{self, RedisServer};
use support::server::claim_now;
use tokio::runtime::Runtime;
use tokio_postgres::types::{ToSql, Type};

use super::{TARGET, readable, with_other_values};

const KEY: &str = "key";

/// A store whose records are written behind its back.
enum Place {
    Redis(
        redis::aio::MultiplexedConnection,
        #[expect(dead_code, reason = "it runs for as long")] Arc<RedisServer>,
    ),
    Postgres(tokio_postgres::Client),
    Files(PathBuf, #[expect(dead_code, reason = "it exists for as long")] TempFolder),
}

/// What a store holds for the key.
#[derive(Debug, PartialEq)]
struct Stored {
    bytes: Vec<u8>,
    fence: Option<i64>,
}

impl Place {
    /// Writes a damaged record; `None` if the store cannot hold it.
    async fn put(&mut self, case: &[u8]) -> Option<Stored> {
        match self {
            Self::Redis(client, _) => {
                let runs = "{damaged:lock:key}:runs";
                let mut pipeline = redis::pipe();
                pipeline.cmd("DEL").arg(&["damaged:lock:key", runs, "{damaged:lock:key}:skips"]).ignore();
                pipeline.cmd("SET").arg("{damaged:lock:key}:state").arg(case).ignore();
                pipeline.cmd("RPUSH").arg(runs).arg(case).ignore();
                pipeline.exec_async(client).await.expect("a record");
            }
            Self::Files(path, _) => {
                // As the store writes it: with the key in front.
                let text = [
                    b"{\"key\":\"key\",",
                    case.strip_prefix(b"{").unwrap_or(case),
                    b"\n{\"runs\":[],\"skips\":[]}\n",
                ];
                std::fs::write(path, text.concat()).expect("a record");
            }
            Self::Postgres(client) => {
                let text = String::from_utf8_lossy(case).replace('\0', "?");
                let value: Value = serde_json::from_str(&text).unwrap_or_default();
                let version = value["version"]
                    .as_str()
                    .unwrap_or("1800014400000000-0123456789abcdef")
                    .replace('\0', "?");
                let fence = value["fence"].as_i64().unwrap_or(7);
                let state = if value["state"].is_null() { text } else { value["state"].to_string() };
                let statement = "INSERT INTO job_lock (namespace, job_name, version, fence, state)
                    VALUES ('damaged', 'key', $1, $2, $3) ON CONFLICT (namespace, job_name)
                    DO UPDATE SET version = $1, fence = $2, state = $3";
                let parameters: [(&(dyn ToSql + Sync), Type); 3] =
                    [(&version, Type::TEXT), (&fence, Type::INT8), (&state, Type::TEXT)];
                client.execute_typed(statement, &parameters).await.expect("a row");
            }
        }
        self.stored().await
    }

    /// Reads what is there, without the crate.
    async fn stored(&mut self) -> Option<Stored> {
        let fence_of = |text: &[u8]| serde_json::from_slice::<Value>(text).ok()?.get("fence")?.as_i64();
        match self {
            Self::Redis(client, _) => {
                let bytes: Option<Vec<u8>> = redis::cmd("GET")
                    .arg("{damaged:lock:key}:state")
                    .query_async(client)
                    .await
                    .expect("a value");
                bytes.map(|bytes| Stored { fence: fence_of(&bytes), bytes })
            }
            Self::Files(path, _) => {
                let bytes = std::fs::read(path).ok()?;
                let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
                Some(Stored { fence: fence_of(first), bytes })
            }
            Self::Postgres(client) => {
                let statement = "SELECT version || state, fence FROM job_lock WHERE namespace = 'damaged'";
                let rows = client.query(statement, &[]).await.expect("rows");
                let row = rows.first()?;
                Some(Stored { bytes: row.get::<_, String>(0).into_bytes(), fence: Some(row.get(1)) })
            }
        }
    }
}

async fn check(case: &[u8], place: &mut Place, client: &Client) -> Verdict {
    let Some(before) = place.put(case).await else { return Err("there is nothing to read".to_owned()) };
    let is_clear = |what: &str, kind: StoreErrorKind, text: String| match kind {
        StoreErrorKind::Unreadable => Ok(()),
        kind => Err(format!("{what} fails with {kind:?}: {text}")),
    };
    if let Err(error) = client.history(KEY).await {
        is_clear("a history", error.kind(), error.to_string())?;
    }
    let list = client.store().list(None).await.map_err(|error| format!("a list fails: {error}"))?;
    let look = client.store().look(KEY).await;
    let claimed = client.claim(KEY, &claim_now()).await;
    let after = place.stored().await;
    match look {
        Ok(look) => {
            if look.version.is_none() || Some(look.fence) != before.fence {
                return Err(format!("the look has another fence, or none: {look:?}"));
            }
            if list.keys.len() != 1 {
                return Err("a record that can be read is not listed".to_owned());
            }
            if let Err(error) = claimed {
                // With files, a claim reads the run and skip records, too.
                is_clear("a claim", error.kind(), error.to_string())?;
            }
            if after.as_ref().is_none_or(|after| after.fence < before.fence) {
                return Err(format!("the fence was {:?}, and is {after:?}", before.fence));
            }
            Ok("read")
        }
        Err(error) => {
            is_clear("a look", error.kind(), error.to_string())?;
            let Err(error) = claimed else { return Err("a claim succeeds on a damaged record".to_owned()) };
            is_clear("a claim", error.kind(), error.to_string())?;
            if after.as_ref() != Some(&before) {
                return Err(format!("the damaged record was changed: {after:?}"));
            }
            Ok("refused")
        }
    }
}

/// Returns the check of a case on a store.
fn checks(runtime: &Runtime, place: Place, store: Arc<dyn Store>) -> impl Fn(&[u8]) -> Verdict {
    let client = Client::of(store);
    runtime.block_on(client.ping()).expect("the store answers");
    let (place, records) = (RefCell::new(place), readable());
    move |case| {
        // Half of them are JSON with other values, and half are damaged in any way.
        let with_other_values = with_other_values(case, &records);
        let case = if case.len() % 2 == 0 { case } else { &with_other_values };
        let verdict = runtime.block_on(check(case, &mut place.borrow_mut(), &client));
        verdict.map_err(|mistake| format!("{mistake}: {}", String::from_utf8_lossy(case)))
    }
}

fn run(cases: u32, runtime: &Runtime, place: Place, store: Arc<dyn Store>) {
    Target { cases, ..TARGET }.run(checks(runtime, place, store));
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

#[test]
fn damaged_record_in_redis_is_a_clear_error_and_keeps_its_fence() {
    let (runtime, server) = (runtime(), RedisServer::shared());
    let client = runtime.block_on(server.client());
    let store = RedisStore::open(&server.url(), Some("damaged")).expect("a URL");
    let store = store.with_timeouts(redis_server::PATIENCE, redis_server::PATIENCE);
    run(600, &runtime, Place::Redis(client, server), Arc::new(store));
}

#[test]
fn damaged_row_in_postgres_is_a_clear_error_and_keeps_its_fence() {
    let runtime = runtime();
    let server = PostgresServer::shared();
    let client = runtime.block_on(server.client());
    let store = PostgresStore::open(&server.url(), Some("damaged")).expect("a URL");
    let store = store.with_timeouts(postgres_server::PATIENCE, postgres_server::PATIENCE);
    run(300, &runtime, Place::Postgres(client), Arc::new(store));
}

#[test]
fn damaged_file_is_a_clear_error_and_keeps_its_fence() {
    let (runtime, folder) = (runtime(), TempFolder::in_memory());
    let store = FileStore::open(folder.path(), None).expect("a folder");
    run(600, &runtime, Place::Files(store.state_file(KEY), folder), Arc::new(store));
}

/// The control: a store that takes a damaged record for none.
struct Forgiving(FileStore);

impl Store for Forgiving {
    fn location(&self) -> String {
        self.0.location()
    }

    fn look<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Look> {
        Box::pin(
            async move { Ok(self.0.look(key).await.unwrap_or_else(|_| Look::nothing(Timestamp::now()))) },
        )
    }

    fn swap<'a>(&'a self, key: &'a str, swap: &'a Swap) -> StoreFuture<'a, SwapReply> {
        self.0.swap(key, swap)
    }

    fn list<'a>(&'a self, page: Option<&'a str>) -> StoreFuture<'a, Page> {
        self.0.list(page)
    }

    fn records<'a>(&'a self, keys: &'a [String], newest: usize) -> StoreFuture<'a, Vec<JobRecords>> {
        self.0.records(keys, newest)
    }

    fn put_note<'a>(&'a self, topic: Topic, note: &'a Note, ttl: Duration) -> StoreFuture<'a, Timestamp> {
        self.0.put_note(topic, note, ttl)
    }

    fn notes(&self, topic: Topic) -> StoreFuture<'_, Notes> {
        self.0.notes(topic)
    }
}

#[test]
fn store_that_takes_damage_for_no_record_is_found() {
    let (runtime, folder) = (runtime(), TempFolder::in_memory());
    let store = FileStore::open(folder.path(), None).expect("a folder");
    let place = Place::Files(store.state_file(KEY), folder);
    TARGET.finds("damage that counts as absent", checks(&runtime, place, Arc::new(Forgiving(store))));
}
