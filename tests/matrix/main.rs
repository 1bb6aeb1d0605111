//! The compatibility matrix: the tests of the stores on every version of a server that can be had.
//!
//! `./tests/run --matrix` installs the servers of the catalogue below `target/matrix`, runs the same tests on each, and prints
//! the tables of `runtime/src/docs/stores.md`. `./tests/run --matrix valkey "mysql 8"` runs only what begins so.
//! The output of the tests is in `target/matrix/logs`.

mod catalogue;
mod checks;
mod install {
    pub mod apt;
    pub mod packages;
    pub mod steps;
}
mod table;
mod ten_servers;

use catalogue::{CATALOGUE, Entry, Expectation, Family};
use checks::{Build, Outcome, Server};
use install::packages::Origin;

/// The servers that are run: all, or those whose name begins with one of these, in lower case and divided by commas.
const CHOICE: &str = "JOBS_MATRIX";

fn is_chosen(entry: &Entry, choice: &str) -> bool {
    let name = entry.name.to_lowercase();
    choice.is_empty() || choice.split(',').any(|begin| name.starts_with(&begin.trim().to_lowercase()))
}

#[test]
#[ignore = "installs thirty servers and takes an hour: ./tests/run --matrix"]
fn matrix() {
    let choice = std::env::var(CHOICE).unwrap_or_default();
    let chosen: Vec<_> = CATALOGUE.iter().filter(|entry| is_chosen(entry, &choice)).collect();
    assert!(!chosen.is_empty(), "no server begins with {choice:?}");
    let build = Build::new();
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for entry in chosen {
        let outcome = install(entry).and_then(|server| checks::run(entry, &server, &build));
        match &outcome {
            Ok(Outcome { failures, .. }) => failed.extend(failures.iter().cloned()),
            Err(problem) => failed.push(format!("{}: {problem}", entry.name)),
        }
        println!("{}", table::progress(entry, &outcome));
        rows.push((entry, outcome));
    }
    println!("\n{}", table::all(&rows));
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

/// Installs the server unless it is there, and finds out its version.
fn install(entry: &Entry) -> Result<Server, String> {
    let program = entry.origin.install(entry.name)?;
    let version = checks::version_of(&program)?;
    let (product, line) = entry.name.split_once(' ').expect("a product and a version");
    // "8.0" is the line of 8.0 and 8.0.42, and not of 8.04.
    if version != line && !version.starts_with(&format!("{line}.")) {
        return Err(format!("{} has {product} {version} now: correct the catalogue", entry.origin));
    }
    let pooled = match entry.family {
        Family::Pooler => Some(newest_postgres()?),
        _ => None,
    };
    Ok(Server { program, pooled, label: format!("{product} {version}") })
}

/// The PostgreSQL behind every pooler.
fn newest_postgres() -> Result<std::path::PathBuf, String> {
    let is_newest = |entry: &&Entry| matches!(entry.family, Family::Postgres);
    let newest = CATALOGUE.iter().rfind(is_newest).expect("a PostgreSQL");
    newest.origin.install(newest.name)
}

#[test]
fn names_of_servers_are_unique_and_each_family_has_an_old_and_a_current_version() {
    let names: std::collections::BTreeSet<_> = CATALOGUE.iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), CATALOGUE.len());
    for family in [Family::Redis, Family::Postgres, Family::Mysql] {
        let of_family = || CATALOGUE.iter().filter(|entry| entry.family == family);
        assert!(of_family().any(|entry| entry.expected == Expectation::TooOld), "{family:?}");
        assert!(of_family().filter(|entry| entry.expected == Expectation::Works).count() > 4, "{family:?}");
    }
    assert!(CATALOGUE.iter().all(|entry| !matches!(entry.origin, Origin::Wheel { specification, .. }
        if !specification.contains("=="))));
}
