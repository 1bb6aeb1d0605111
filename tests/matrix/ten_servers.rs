//! The example `ten_servers` on each kind of server: ten processes, and every tick on exactly one of them.

use std::process::Command;

use support::mariadb_server::MariadbServer;
use support::pooler::Pooler;
use support::postgres_server::PostgresServer;
use support::redis_server::RedisServer;

/// Fails if a tick runs twice, or, several times, not at all: ten servers on a busy machine may miss one.
fn compete(url: &str) {
    for attempt in 1.. {
        match ticks_of_example(url) {
            Ok(ticks) => return println!("ticks: {ticks}"),
            Err(said) => assert!(attempt < 4 && said.contains("\nError: did not run: "), "{said}"),
        }
    }
}

/// Runs the example, and returns how many ticks ran on one server each.
fn ticks_of_example(url: &str) -> Result<String, String> {
    let program = std::env::current_exe().expect("a program");
    // This one is in `target/debug/deps`.
    let example = program.ancestors().nth(2).expect("a folder").join("examples/ten_servers");
    let output = Command::new(&example).env("JOBS_URL", url).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", example.display()));
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    let summary = said.lines().find_map(|line| Some(line.split_once(" ticks, ")?.0.to_owned()));
    summary.filter(|_| output.status.success()).ok_or(said)
}

#[test]
#[ignore = "needs the example: ./tests/run --matrix"]
fn redis() {
    compete(&RedisServer::start().url());
}

#[test]
#[ignore = "needs the example: ./tests/run --matrix"]
fn postgres() {
    compete(&PostgresServer::start().url());
}

#[test]
#[ignore = "needs the example: ./tests/run --matrix"]
fn pooler() {
    compete(&Pooler::shared().url());
}

#[test]
#[ignore = "needs the example: ./tests/run --matrix"]
fn mysql() {
    compete(&MariadbServer::start().url());
}
