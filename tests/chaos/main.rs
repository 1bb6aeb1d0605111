//! Chaos: eight real servers with 64 jobs and some locks on a real store, under faults from a seed. Every process writes its
//! history, and `jobs::testing::check` decides all invariants on them.
//!
//! ```console
//! cargo test --test chaos                                        # every store for 300 ticks, and the controls
//! JOBS_CHAOS_SEED=17 cargo test --test chaos -- on_redis --nocapture
//! JOBS_CHAOS_STORE=redis JOBS_CHAOS_TICKS=100000 cargo test --test chaos -- soak --ignored --nocapture
//! ```
//!
//! A soak runs one seed after the other, and adds its counts to `target/chaos/STORE.json`: it can be interrupted, and
//! continued with the same command. A run that fails keeps its histories, and prints its seed and its folder.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};

use deployment::Kind;
use report::Report;

mod clock;
mod controls;
mod deployment;
mod disk;
mod effects;
mod faults;
mod fleet;
mod history;
mod locks;
mod nemesis;
mod operator;
mod plan;
mod report;
mod resource;
mod run;
mod swaps;
mod worker;

/// As many ticks per store, unless `JOBS_CHAOS_TICKS` says otherwise.
const TICKS: u64 = 300;

/// As many ticks per seed of a soak.
const TICKS_PER_SEED: u64 = 6400;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Also where the worker processes begin.
#[test]
fn worker_process_runs_its_job() {
    worker::begin();
}

fn run_on(kind: Kind) {
    let seed = number("JOBS_CHAOS_SEED").unwrap_or_else(|| clock::steady() % 1_000_000);
    let (report, folder) = run_seed(kind, seed, number("JOBS_CHAOS_TICKS").unwrap_or(TICKS));
    conclude(&report, &folder);
}

/// Runs one seed; returns the report and the folder of its histories.
fn run_seed(kind: Kind, seed: u64, ticks: u64) -> (Report, PathBuf) {
    let folder = run::folder(&format!("{}-{seed}", kind.name()));
    let mut report = run::run(kind, seed, ticks, &folder);
    report.seeds = vec![seed];
    println!("{} with JOBS_CHAOS_SEED={seed}: {report}", kind.name());
    for violation in report.violations.iter().take(50) {
        println!("{violation}");
        for line in history::reports_about(&folder, &violation.key, &violation.message).iter().take(20) {
            println!("    {line}");
        }
    }
    (report, folder)
}

/// Panics if an invariant does not hold, and otherwise removes the histories.
fn conclude(report: &Report, folder: &Path) {
    let (violations, place) = (report.violations.len(), folder.display());
    assert!(violations == 0, "{violations} violations; histories: {place}");
    let few = report.ran * 10 <= report.counts.ticks;
    assert!(!few, "so few ticks ran that this shows nothing; histories: {place}");
    if std::env::var_os("JOBS_CHAOS_KEEP").is_none() {
        let _best_effort = std::fs::remove_dir_all(folder);
    }
}

#[test]
fn invariants_hold_on_redis() {
    run_on(Kind::Redis);
}

#[test]
fn invariants_hold_on_redis_that_forgets_all_when_it_is_killed() {
    run_on(Kind::RedisInMemory);
}

#[test]
fn invariants_hold_on_redis_behind_sentinels() {
    run_on(Kind::Sentinel);
}

#[test]
fn invariants_hold_on_a_redis_cluster() {
    run_on(Kind::Cluster);
}

#[test]
fn invariants_hold_on_postgres() {
    run_on(Kind::Postgres);
}

#[test]
fn invariants_hold_on_postgres_behind_pgbouncer() {
    run_on(Kind::Pooled);
}

#[test]
fn invariants_hold_on_files() {
    run_on(Kind::Files);
}

#[test]
fn invariants_hold_on_sqlite() {
    run_on(Kind::Sqlite);
}

#[test]
fn invariants_hold_on_mariadb() {
    run_on(Kind::Mysql);
}

#[test]
#[ignore = "runs for as long as JOBS_CHAOS_TICKS says"]
fn soak() {
    let kind = Kind::named(&std::env::var("JOBS_CHAOS_STORE").expect("JOBS_CHAOS_STORE=redis, for example"));
    let wanted = number("JOBS_CHAOS_TICKS").unwrap_or(100_000);
    let file =
        Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("chaos").join(format!("{}.json", kind.name()));
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("target/chaos");
    let read = std::fs::read_to_string(&file).ok();
    let mut sum: Report = read.map(|text| serde_json::from_str(&text).expect("a report")).unwrap_or_default();
    while sum.counts.ticks < wanted {
        let seed = clock::steady() % 1_000_000_000;
        let (report, folder) = run_seed(kind, seed, TICKS_PER_SEED);
        sum.add(&report);
        std::fs::write(&file, serde_json::to_string_pretty(&sum).expect("plain data")).expect("the sum");
        println!("--- {} of {wanted} ticks on {}", sum.counts.ticks, kind.name());
        conclude(&report, &folder);
    }
    println!("{}: {sum}", kind.name());
}

/// Checks the histories of a folder again, after a change of the checks.
#[test]
#[ignore = "needs JOBS_CHAOS_FOLDER"]
fn check_again() {
    let folder = std::env::var("JOBS_CHAOS_FOLDER").expect("JOBS_CHAOS_FOLDER=target/chaos/redis-17");
    let verdict = run::check_again(Path::new(&folder));
    verdict.violations.iter().for_each(|violation| println!("{violation}"));
    verdict.excused.iter().for_each(|violation| println!("excused: {violation}"));
}
