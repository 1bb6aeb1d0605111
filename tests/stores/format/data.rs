//! The data of a store as text, one JSON array per line: Redis commands, rows, or files.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use jobs::store::Store;
use jobs::store::file::FileStore;
use jobs::store::postgres::PostgresStore;
use jobs::store::redis::RedisStore;
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, cmd};
use serde_json::{Value, json};
use support::folder::TempFolder;
use support::postgres_server::{self, PostgresServer};
use support::redis_server::{self, RedisServer};
use tokio_postgres::types::Type;

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Redis,
    Postgres,
    Files,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Redis, Self::Postgres, Self::Files];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Postgres => "postgres",
            Self::Files => "files",
        }
    }
}

/// A store of the test's own.
pub(super) enum Data {
    Redis(RedisServer),
    Postgres { schema: String },
    Files(TempFolder),
}

/// The key that another program has locked.
pub(super) const FOREIGN: &str = "foreign";

/// The schema in the frozen data.
const SCHEMA: &str = "frozen_schema";
const TABLES: [&str; 3] = ["job_lock", "job_record", "job_note"];

impl Data {
    /// Returns an empty store.
    pub(super) fn empty(kind: Kind) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        match kind {
            Kind::Redis => Self::Redis(RedisServer::start()),
            Kind::Files => Self::Files(TempFolder::in_memory()),
            Kind::Postgres => {
                let schema = format!("format{}", COUNT.fetch_add(1, Ordering::Relaxed));
                Self::Postgres { schema }
            }
        }
    }

    /// Returns a store with this data.
    pub(super) async fn load(kind: Kind, lines: &[String]) -> Self {
        let data = Self::empty(kind);
        for line in lines {
            let words: Vec<String> = serde_json::from_str(line).expect("an array of texts");
            match &data {
                Self::Redis(server) => {
                    let mut command = cmd(&words[0]);
                    command.arg(&words[1..]);
                    command.exec_async(&mut server.client().await).await.expect("a command");
                }
                Self::Postgres { schema } => insert(schema, &words).await,
                Self::Files(folder) => {
                    let path = folder.path().join(&words[0]);
                    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
                    std::fs::write(path, &words[1]).expect("a file");
                }
            }
        }
        data
    }

    /// Another program locks a key, on a store that it shares.
    pub(super) async fn lock_by_another_program(&self) {
        if let Self::Redis(server) = self {
            let mut lock = cmd("SET");
            lock.arg(format!("lock:{FOREIGN}")).arg("another program");
            lock.exec_async(&mut server.client().await).await.expect("a lock");
        }
    }

    pub(super) fn url(&self) -> String {
        match self {
            Self::Redis(server) => server.url(),
            Self::Postgres { schema } => format!("{}?schema={schema}", PostgresServer::shared().url()),
            Self::Files(folder) => format!("file://{}", folder.path().display()),
        }
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        open(&self.url())
    }

    /// Returns all of the store's data.
    pub(super) async fn dump(&self) -> Vec<String> {
        let rows = match self {
            Self::Redis(server) => redis_commands(&mut server.client().await).await,
            Self::Postgres { schema } => postgres_rows(schema).await,
            Self::Files(folder) => {
                let mut files = Vec::new();
                read_files(folder.path(), folder.path(), &mut files);
                files.sort();
                files
            }
        };
        rows.into_iter().map(|row| json!(row).to_string()).collect()
    }
}

/// Opens the store at a URL, with patience for a busy machine.
pub(super) fn open(url: &str) -> Arc<dyn Store> {
    if let Some(folder) = url.strip_prefix("file://") {
        Arc::new(FileStore::open(folder, None).expect("a folder"))
    } else if url.starts_with("postgres") {
        let store = PostgresStore::open(url, None).expect("a URL");
        Arc::new(store.with_timeouts(postgres_server::PATIENCE, postgres_server::PATIENCE))
    } else {
        let store = RedisStore::open(url, None).expect("a URL");
        Arc::new(store.with_timeouts(redis_server::PATIENCE, redis_server::PATIENCE))
    }
}

async fn insert(schema: &str, words: &[String]) {
    let client = PostgresServer::shared().client().await;
    match words {
        [table, row] if TABLES.contains(&table.as_str()) => {
            let statement = format!(
                "INSERT INTO \"{schema}\".{table} OVERRIDING SYSTEM VALUE
                 SELECT * FROM json_populate_record(NULL::\"{schema}\".{table}, $1::text::json)"
            );
            client.query_typed(&statement, &[(row, Type::TEXT)]).await.expect("a row");
        }
        [_, script] => client.batch_execute(&script.replace(SCHEMA, schema)).await.expect("the tables"),
        words => panic!("not a row: {words:?}"),
    }
}

async fn postgres_rows(schema: &str) -> Vec<Vec<String>> {
    let server = PostgresServer::shared();
    let store = PostgresStore::open(&format!("{}?schema={SCHEMA}", server.url()), None).expect("a URL");
    let mut rows = vec![vec!["tables".to_owned(), store.setup_sql()]];
    let client = server.client().await;
    for table in TABLES {
        let statement = format!("SELECT row_to_json(t)::text FROM \"{schema}\".{table} t ORDER BY 1");
        let found = client.query(&statement, &[]).await.expect("rows");
        rows.extend(found.iter().map(|row| vec![table.to_owned(), row.get(0)]));
    }
    rows
}

async fn redis_commands(client: &mut MultiplexedConnection) -> Vec<Vec<String>> {
    async fn ask<T: FromRedisValue>(client: &mut MultiplexedConnection, words: &[&str]) -> T {
        let mut command = cmd(words[0]);
        command.arg(&words[1..]).query_async(client).await.expect("an answer")
    }
    let mut keys: Vec<String> = ask(client, &["KEYS", "*"]).await;
    keys.sort();
    let mut commands = Vec::new();
    for key in &keys {
        let kind: String = ask(client, &["TYPE", key]).await;
        let (write, values) = match kind.as_str() {
            "string" => ("SET", vec![ask(client, &["GET", key]).await]),
            "list" => ("RPUSH", ask(client, &["LRANGE", key, "0", "-1"]).await),
            "hash" => ("HSET", ask(client, &["HGETALL", key]).await),
            "zset" => {
                let members: Vec<String> = ask(client, &["ZRANGE", key, "0", "-1", "WITHSCORES"]).await;
                ("ZADD", members.chunks(2).flat_map(|pair| [pair[1].clone(), pair[0].clone()]).collect())
            }
            kind => panic!("{key} is a {kind}"),
        };
        commands.push([vec![write.to_owned(), key.clone()], values].concat());
        let expires: i64 = ask(client, &["PEXPIRETIME", key]).await;
        if expires > 0 {
            commands.push(["PEXPIREAT", key, &expires.to_string()].map(str::to_owned).to_vec());
        }
    }
    commands
}

fn read_files(folder: &Path, root: &Path, files: &mut Vec<Vec<String>>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            read_files(&path, root, files);
        } else if path.extension().is_none_or(|extension| extension != "lock") {
            let name = path.strip_prefix(root).expect("a file below it").display().to_string();
            files.push(vec![name, std::fs::read_to_string(&path).expect("a text")]);
        }
    }
}

/// Returns the data with every JSON document changed: states, records, and notes of servers.
pub(super) fn map_documents(kind: Kind, lines: &[String], change: impl Fn(&str) -> String) -> Vec<String> {
    let each_line = |text: &str| text.lines().map(&change).collect::<Vec<_>>().join("\n");
    let changed = lines.iter().map(|line| {
        let mut words: Vec<String> = serde_json::from_str(line).expect("an array of texts");
        match kind {
            Kind::Redis => {
                // The names of keys begin with a brace, too.
                for word in words.iter_mut().filter(|word| word.starts_with('{') && word.ends_with('}')) {
                    *word = change(word);
                }
            }
            Kind::Postgres if TABLES.contains(&words[0].as_str()) => {
                let mut row: Value = serde_json::from_str(&words[1]).expect("a row");
                for column in ["state", "record"] {
                    if let Some(json) = row[column].as_str().map(&change) {
                        row[column] = json.into();
                    }
                }
                words[1] = row.to_string();
            }
            Kind::Postgres => {}
            Kind::Files => words[1] = each_line(&words[1]) + "\n",
        }
        json!(words).to_string()
    });
    changed.collect()
}

/// Returns the stored texts of all states, by key.
pub(super) fn states(kind: Kind, lines: &[String]) -> BTreeMap<String, String> {
    let of = |line: &String| {
        let words: Vec<String> = serde_json::from_str(line).expect("an array of texts");
        match kind {
            Kind::Redis => {
                let key = words[1].strip_prefix("{lock:")?.strip_suffix("}:state")?;
                (words[0] == "SET").then(|| (key.to_owned(), words[2].clone()))
            }
            Kind::Postgres => {
                let row: Value = serde_json::from_str(&words[1]).ok().filter(|_| words[0] == "job_lock")?;
                let text = format!("{{\"fence\":{},\"state\":{}}}", row["fence"], row["state"].as_str()?);
                Some((row["job_name"].as_str()?.to_owned(), text))
            }
            Kind::Files => {
                let head =
                    words[1].lines().next().filter(|_| words[0].rsplit('.').next() == Some("state"))?;
                let value: Value = serde_json::from_str(head).expect("JSON");
                Some((value["key"].as_str()?.to_owned(), head.to_owned()))
            }
        }
    };
    lines.iter().filter_map(of).collect()
}

/// Returns the stored fences of all keys, read without the crate.
pub(super) fn fences(kind: Kind, lines: &[String]) -> BTreeMap<String, i64> {
    let fence = |text: String| {
        serde_json::from_str::<Value>(&text).expect("JSON")["fence"].as_i64().expect("a fence")
    };
    states(kind, lines).into_iter().map(|(key, text)| (key, fence(text))).collect()
}
