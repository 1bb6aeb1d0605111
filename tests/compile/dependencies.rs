//! The crates of the default build. `tests/run` limits their number.

use std::process::Command;

/// The crates that the runtime is built with, for these arguments of `cargo tree`.
fn crates(arguments: &[&str]) -> Vec<String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut tree = Command::new(cargo);
    tree.current_dir(env!("CARGO_MANIFEST_DIR")).args([
        "tree",
        "--locked",
        "--offline",
        "-p",
        "singleton-jobs",
    ]);
    let output = tree.args(["-e", "normal", "--prefix", "none"]).args(arguments).output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

fn has_metrics(arguments: &[&str]) -> bool {
    crates(arguments).iter().any(|name| name.starts_with("metrics"))
}

#[test]
fn only_the_feature_metrics_brings_a_crate_for_metrics() {
    assert!(!has_metrics(&[]));
    assert!(has_metrics(&["--features", "metrics"]), "the control");
}

#[test]
fn only_the_feature_dashboard_brings_a_web_server_and_at_most_40_crates() {
    use std::collections::BTreeSet;
    let without: BTreeSet<_> = crates(&[]).into_iter().collect();
    assert!(
        !without.iter().any(|name| name.starts_with("axum ") || name.starts_with("maud ")),
        "{without:?}"
    );
    let all = crates(&["--features", "dashboard"]);
    let added: BTreeSet<_> = all.iter().filter(|name| !without.contains(*name)).collect();
    assert!(added.iter().any(|name| name.starts_with("axum ")), "the control: {added:?}");
    // With axum's own, of which there are 16.
    assert!(added.len() <= 40, "{} crates: {added:?}", added.len());
}

#[test]
fn the_feature_sqlx_brings_only_the_driver_of_the_store_that_is_there_and_never_sqlite() {
    let of_sqlx = |arguments: &[&str]| -> Vec<String> {
        let all = crates(arguments).into_iter().filter_map(|name| name.split(' ').next().map(str::to_owned));
        let mut all: Vec<_> =
            all.filter(|name| name.starts_with("sqlx") || name.contains("sqlite")).collect();
        all.sort();
        all.dedup();
        all
    };
    assert!(of_sqlx(&["--features", "mysql,postgres,deadpool-postgres,tls"]).is_empty());
    assert_eq!(of_sqlx(&["--features", "postgres,sqlx"]), ["sqlx", "sqlx-core", "sqlx-postgres"]);
    assert_eq!(of_sqlx(&["--features", "mysql,sqlx"]), ["sqlx", "sqlx-core", "sqlx-mysql"]);
    let with_sqlite = of_sqlx(&["--features", "postgres,sqlite,sqlx"]);
    assert_eq!(with_sqlite, ["libsqlite3-sys", "rusqlite", "sqlx", "sqlx-core", "sqlx-postgres"]);
}
