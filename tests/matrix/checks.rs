//! The tests that a server is put to, and what they report.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::chosen;

use crate::catalogue::{Entry, Expectation, Family};
use crate::install::steps::{self, folder};

/// An installed server.
pub struct Server {
    pub program: PathBuf,
    /// The PostgreSQL behind a pooler.
    pub pooled: Option<PathBuf>,
    /// Its name and its whole version.
    pub label: String,
}

/// What came of a server's tests.
pub struct Outcome {
    pub label: String,
    pub cells: Cells,
    /// The checks that failed, with the tests.
    pub failures: Vec<String>,
}

pub enum Cells {
    /// A figure for each column of the table.
    Figures(Vec<String>),
    /// The message by which a start refused it.
    Refused(String),
}

/// The columns of the table.
pub const COLUMNS: [&str; 5] = ["contract", "random", "own tests", "diagnosis", "ten servers"];

/// Tests of one program by the parts of their names.
struct Check {
    column: usize,
    program: &'static str,
    names: &'static [&'static str],
    without: &'static [&'static str],
}

const fn check(column: usize, program: &'static str, names: &'static [&'static str]) -> Check {
    Check { column, program, names, without: &[] }
}

const fn own(names: &'static [&'static str], without: &'static [&'static str]) -> Check {
    Check { column: 2, program: "stores", names, without }
}

const REDIS: &[Check] = &[
    check(0, "stores", &["contract::redis"]),
    check(1, "stores", &["random_replay::redis"]),
    own(&["redis_interop::", "redis_reconnect::"], &[]),
    check(3, "startup", &["diagnosis::redis::", "diagnosis::starts::"]),
    check(4, "matrix", &["ten_servers::redis"]),
];

const POSTGRES: &[Check] = &[
    check(0, "stores", &["contract::postgres"]),
    check(1, "stores", &["random_replay::postgres"]),
    own(&["postgres::"], &["contract::"]),
    check(3, "startup", &["diagnosis::postgres::"]),
    check(4, "matrix", &["ten_servers::postgres"]),
];

const POOLER: &[Check] = &[
    check(0, "stores", &["contract::postgres_behind_a_pooler"]),
    check(4, "matrix", &["ten_servers::pooler"]),
];

const MYSQL: &[Check] = &[
    check(0, "stores", &["contract::mysql"]),
    check(1, "stores", &["random_replay::mysql"]),
    // An interrupted commit is made by `BACKUP STAGE`, which neither MySQL nor MariaDB before 10.4 has.
    // Without its feature `mysql-rsa` or TLS, `sqlx` cannot log in to MySQL 8.
    own(&["mysql::"], &["contract::", "mysql::refusals::", "mysql::commits::an_interrupted", "sqlx_mysql::"]),
    check(3, "stores", &["mysql::refusals::"]),
    check(4, "matrix", &["ten_servers::mysql"]),
];

fn checks(family: Family) -> &'static [Check] {
    match family {
        Family::Redis => REDIS,
        Family::Postgres => POSTGRES,
        Family::Pooler => POOLER,
        Family::Mysql => MYSQL,
    }
}

/// The test that a start refuses a server of this family.
fn refusal(family: Family) -> &'static str {
    match family {
        Family::Redis => "diagnosis::too_old::start_refuses_a_redis",
        Family::Postgres | Family::Pooler => "diagnosis::too_old::start_refuses_a_postgres",
        Family::Mysql => "diagnosis::too_old::start_refuses_a_mariadb_or_mysql",
    }
}

/// The test programs, built once for all servers.
pub struct Build(BTreeMap<String, PathBuf>);

impl Build {
    pub fn new() -> Self {
        let cargo = |arguments: &[&str]| {
            let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
            let mut build = Command::new(cargo);
            build.current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments);
            // The whole workspace, as `tests/run` builds it.
            build.args(["--locked", "--workspace", "--message-format=json"]);
            steps::run(&mut build).expect("the tests compile")
        };
        cargo(&["build", "--example", "ten_servers"]);
        let messages =
            cargo(&["test", "--no-run", "--test", "stores", "--test", "startup", "--test", "matrix"]);
        let programs = messages.lines().filter_map(|line| {
            let message: serde_json::Value = serde_json::from_str(line).ok()?;
            let name = message["target"]["name"].as_str()?;
            Some((name.to_owned(), PathBuf::from(message["executable"].as_str()?)))
        });
        Self(programs.collect())
    }

    fn program(&self, name: &str) -> &Path {
        self.0.get(name).unwrap_or_else(|| panic!("cargo built no program {name}"))
    }

    /// Runs tests on the server, and keeps what they print.
    fn test(&self, program: &str, arguments: &[&str], server: &Server, family: Family) -> Tests {
        let mut command = Command::new(self.program(program));
        command.args(arguments).arg("--show-output").current_dir(env!("CARGO_MANIFEST_DIR"));
        let path = &server.program;
        let bin = |program: &Path| program.parent().expect("a folder").to_owned();
        match family {
            Family::Redis => command.env(chosen::REDIS_SERVER, path),
            Family::Postgres => command.env(chosen::POSTGRES_BIN, bin(path)),
            Family::Pooler => {
                let postgres = server.pooled.as_deref().expect("a server behind the pooler");
                command.env(chosen::PGBOUNCER, path).env(chosen::POSTGRES_BIN, bin(postgres))
            }
            Family::Mysql => command.env(chosen::MARIADBD, path),
        };
        // Fewer rounds of the races than by default: they have a limit of time, and old servers are slower.
        command.env("JOBS_TEST_ROUNDS", "400").env_remove("JOBS_URL").env_remove("REDIS_URL");
        let output = command.output().expect("a test program");
        let text =
            [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
        Tests { text }
    }
}

/// What a test program printed.
struct Tests {
    text: String,
}

impl Tests {
    /// How many tests passed, and the names of those that failed. A program that crashed has neither.
    fn results(&self) -> Option<(usize, Vec<String>)> {
        let summary = self.text.lines().find(|line| line.starts_with("test result: "))?;
        let number = |word: &str| -> Option<usize> {
            summary.split([';', '.']).find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok())
        };
        let failed: Vec<_> = self.text.lines().filter_map(|line| line.strip_suffix(" ... FAILED")).collect();
        let failed: Vec<_> = failed.iter().map(|line| line.trim_start_matches("test ").to_owned()).collect();
        (number("failed")? == failed.len()).then_some((number("passed")?, failed))
    }

    fn line(&self, begin: &str) -> Option<&str> {
        self.text.lines().find_map(|line| line.strip_prefix(begin))
    }
}

/// Runs all tests of the server's family on it, or the one that it is refused.
pub fn run(entry: &Entry, server: &Server, build: &Build) -> Result<Outcome, String> {
    let logs = folder().join("logs").join(server.label.to_lowercase().replace(' ', "-"));
    steps::make(&logs)?;
    let log = |name: &str, tests: &Tests| {
        let file = logs.join(format!("{}.log", name.replace(' ', "-")));
        fs::write(&file, &tests.text).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok::<_, String>(file)
    };
    if entry.expected == Expectation::TooOld {
        let arguments = [refusal(entry.family), "--ignored"];
        let tests = build.test("startup", &arguments, server, entry.family);
        let file = log("refusal", &tests)?;
        let refused =
            tests.line("refused: ").filter(|_| tests.results().is_some_and(|(passed, _)| passed == 1));
        let message = refused.ok_or(format!("it was not refused: {}", file.display()))?;
        let cells = Cells::Refused(message.to_owned());
        return Ok(Outcome { label: server.label.clone(), cells, failures: Vec::new() });
    }
    let mut figures = vec!["–".to_owned(); COLUMNS.len()];
    let mut failures = Vec::new();
    for check in checks(entry.family) {
        let skips = check.without.iter().flat_map(|name| ["--skip", name]);
        // Of the stores, what is ignored does not apply to them.
        let ignored = (check.program == "matrix").then_some("--ignored");
        let arguments: Vec<_> = check.names.iter().copied().chain(skips).chain(ignored).collect();
        let tests = build.test(check.program, &arguments, server, entry.family);
        let file = log(COLUMNS[check.column], &tests)?;
        let (passed, failed) = tests.results().ok_or(format!("no results: {}", file.display()))?;
        if passed + failed.len() == 0 {
            return Err(format!("no test is called {:?}", check.names));
        }
        let all = passed + failed.len();
        figures[check.column] = match tests.line("ticks: ") {
            Some(ticks) => ticks.to_owned(),
            None if failed.is_empty() => passed.to_string(),
            None => format!("**{passed} of {all}**"),
        };
        failures
            .extend(failed.iter().map(|test| format!("{}: {test}; see {}", server.label, file.display())));
    }
    Ok(Outcome { label: server.label.clone(), cells: Cells::Figures(figures), failures })
}

/// The version that the program says it has.
pub fn version_of(program: &Path) -> Result<String, String> {
    let said = steps::run(Command::new(program).arg("--version"))?;
    version_in(&said).ok_or(format!("no version in {said:?}"))
}

/// The first word, but for letters before it, that is a number with points.
fn version_in(said: &str) -> Option<String> {
    let words =
        said.split([' ', '=', '\n', '(', ')', ',']).map(|word| word.trim_start_matches(char::is_alphabetic));
    let numbers =
        words.map(|word| word.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default());
    numbers.filter(|word| word.contains('.') && !word.ends_with('.')).map(str::to_owned).next()
}

#[test]
fn version_is_read_from_what_each_program_says() {
    for (said, version) in [
        (
            "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64 build=cf3faf7eda7c0c8",
            "7.0.15",
        ),
        ("Valkey server v=9.1.2 sha=00000000:1 malloc=libc bits=64 build=d0", "9.1.2"),
        ("postgres (PostgreSQL) 18.4", "18.4"),
        ("PgBouncer 1.18.0\nlibevent 2.1.12-stable", "1.18.0"),
        ("mariadbd  Ver 10.11.11-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)", "10.11.11"),
        ("/usr/sbin/mysqld  Ver 8.4.8-0ubuntu1 for Linux on x86_64 ((Ubuntu))", "8.4.8"),
    ] {
        assert_eq!(version_in(said).as_deref(), Some(version), "{said}");
    }
}

#[test]
fn results_are_read_from_what_the_test_programs_print() {
    let tests = |text: &str| Tests { text: text.to_owned() };
    let passed = tests(
        "test a::b ... ok\n\ntest result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 9 filtered out",
    );
    assert_eq!(passed.results(), Some((12, Vec::new())));
    let failed =
        tests("test a::b ... FAILED\n\ntest result: FAILED. 11 passed; 1 failed; 0 ignored; 0 measured");
    assert_eq!(failed.results(), Some((11, vec!["a::b".to_owned()])));
    assert_eq!(tests("running 3 tests\nthread panicked while processing panic").results(), None);
}
