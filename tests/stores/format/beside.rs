//! An older version beside a newer one: two processes share a store, and one of them writes fields that the other does not
//! know.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use jobs::Job;
use jobs::testing::{Hook, HookFuture, Intercept, Request};
use support::child::{Child, role, tell, wait_for_parent};
use tokio_postgres::NoTls;
use tokio_postgres::types::Type;

use super::data::{Data, Kind, open};
use super::later_fields;

const ENTRY: &str = "format::beside::older_and_newer_servers_run_each_tick_once";
const KEY: &str = "import";
const ENOUGH: usize = 6;
const PATIENCE: Duration = Duration::from_secs(120);

/// Rewrites the record after each swap, as if the swap had written more fields.
struct LaterVersion {
    url: String,
    rewritten: Arc<AtomicU32>,
}

impl Hook for LaterVersion {
    fn after<'a>(&'a self, request: Request<'a>) -> HookFuture<'a> {
        Box::pin(async move {
            if let Request::Swap(KEY, _) = request
                && add_fields(&self.url).await
            {
                self.rewritten.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        })
    }
}

struct ThisVersion;

impl Hook for ThisVersion {}

/// Adds fields to the record, unless it changes meanwhile. Version and fence stay as they are.
async fn add_fields(url: &str) -> bool {
    if let Some(folder) = url.strip_prefix("file://") {
        add_to_file(Path::new(folder))
    } else if url.starts_with("postgres") {
        add_to_row(url).await
    } else {
        add_to_string(url).await
    }
}

async fn add_to_string(url: &str) -> bool {
    const IF_UNCHANGED: &str = "
        if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
        redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
        return 1";
    let client = redis::Client::open(url).expect("a URL");
    let mut client = client.get_multiplexed_async_connection().await.expect("a connection");
    let record = format!("{{lock:{KEY}}}:state");
    let text: Option<String> =
        redis::cmd("GET").arg(&record).query_async(&mut client).await.expect("a record");
    let Some(text) = text.filter(|text| !text.contains(later_fields::NAME)) else { return false };
    let script = redis::Script::new(IF_UNCHANGED);
    let written: u32 = script
        .key(&record)
        .arg(&text)
        .arg(later_fields::add(&text))
        .invoke_async(&mut client)
        .await
        .expect("an answer");
    written == 1
}

async fn add_to_row(url: &str) -> bool {
    let (address, schema) = url.split_once("?schema=").expect("a schema");
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.expect("a connection");
    tokio::spawn(async { drop(connection.await) });
    let read = format!("SELECT version, state FROM \"{schema}\".job_lock WHERE job_name = '{KEY}'");
    let rows = client.query(&read, &[]).await.expect("rows");
    let Some((version, state)) = rows.first().map(|row| (row.get::<_, String>(0), row.get::<_, String>(1)))
    else {
        return false;
    };
    let write =
        format!("UPDATE \"{schema}\".job_lock SET state = $1 WHERE job_name = '{KEY}' AND version = $2");
    let added = later_fields::add(&state);
    let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 2] =
        [(&added, Type::TEXT), (&version, Type::TEXT)];
    let is_new = !state.contains(later_fields::NAME);
    is_new && client.execute_typed(&write, &parameters).await.expect("an update") == 1
}

fn add_to_file(folder: &Path) -> bool {
    let path = folder.join(format!("{KEY}.state"));
    let lock = File::create(folder.join(format!("{KEY}.lock"))).expect("a lock file");
    lock.lock().expect("the lock");
    let Ok(text) = fs::read_to_string(&path) else { return false };
    if text.contains(later_fields::NAME) {
        return false;
    }
    let lines: Vec<_> = text.lines().map(later_fields::add).collect();
    let added = folder.join("later.tmp");
    fs::write(&added, lines.join("\n") + "\n").expect("a file");
    fs::rename(&added, &path).expect("a new record");
    true
}

/// In a child: a server of this version, or of a simulated later one.
fn serve(role: &str, url: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let rewritten = Arc::new(AtomicU32::new(0));
        let job = Job::builder(KEY).every("100ms").ttl("10s");
        let job = job.run(|run| async move {
            tell(&format!("ran {} {}", run.tick().expect("a tick").as_micros(), run.fence()));
        });
        let builder = jobs::builder().without_annotated().job(job.build().expect("a job"));
        let builder = match role {
            "newer" => {
                let hook = LaterVersion { url: url.to_owned(), rewritten: rewritten.clone() };
                builder.store(Intercept::new(open(url), hook))
            }
            _ => builder.store(Intercept::new(open(url), ThisVersion)),
        };
        let jobs = builder.start_all().await.expect("a server");
        tokio::task::spawn_blocking(wait_for_parent).await.expect("the parent");
        jobs.shutdown().await;
        tell(&format!("rewrote {}", rewritten.load(Ordering::Relaxed)));
    });
}

/// What a child tells until both have run often enough.
fn follow(mut child: Child, own: usize, runs: &[AtomicUsize; 2]) -> Vec<String> {
    let begun = Instant::now();
    let (mut told, mut ends) = (Vec::new(), false);
    while let Some(line) = child.told() {
        if line.starts_with("ran ") {
            runs[own].fetch_add(1, Ordering::Relaxed);
        }
        told.push(line);
        let enough = runs.iter().all(|runs| runs.load(Ordering::Relaxed) >= ENOUGH);
        if !ends && (enough || begun.elapsed() > PATIENCE) {
            ends = true;
            child.go_on();
        }
    }
    told
}

async fn run_beside_each_other(kind: Kind) {
    let data = Data::empty(kind);
    let url = data.url();
    // The tables are there before both want to create them.
    open(&url).look(KEY).await.expect("a look");
    let runs = [const { AtomicUsize::new(0) }; 2];
    let told = std::thread::scope(|scope| {
        let children = ["older", "newer"].map(|role| Child::spawn(ENTRY, role, Path::new(&url)));
        let mut own = 0..;
        let followed = children.map(|child| {
            let (own, runs) = (own.next().unwrap_or_default(), &runs);
            scope.spawn(move || follow(child, own, runs))
        });
        followed.map(|followed| followed.join().expect("no panic"))
    });
    let number = |word: Option<&str>| word.and_then(|word| word.parse::<i64>().ok()).expect("a number");
    let mut ticks = BTreeMap::new();
    for line in told.iter().flatten().filter_map(|line| line.strip_prefix("ran ")) {
        let mut words = line.split(' ');
        let (tick, fence) = (number(words.next()), number(words.next()));
        assert_eq!(ticks.insert(tick, fence), None, "{kind:?}: the tick {tick} ran twice: {told:?}");
    }
    let fences: Vec<_> = ticks.values().collect();
    assert!(fences.is_sorted_by(|one, next| one < next), "{kind:?}: {ticks:?}");
    for told in &told {
        let count = told.iter().filter(|line| line.starts_with("ran ")).count();
        assert!(count >= ENOUGH, "{kind:?}: {told:?}");
    }
    let rewrote = told[1].iter().find_map(|line| line.strip_prefix("rewrote "));
    assert!(number(rewrote) >= i64::try_from(ENOUGH).expect("a small number"), "{kind:?}: {rewrote:?}");
    println!("{kind:?}: {} ticks, {rewrote:?} records with later fields", ticks.len());
}

/// Also where the processes begin.
#[test]
fn older_and_newer_servers_run_each_tick_once() {
    if let Some((role, url)) = role() {
        return serve(&role, &url);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for kind in Kind::ALL {
            run_beside_each_other(kind).await;
        }
    });
}
