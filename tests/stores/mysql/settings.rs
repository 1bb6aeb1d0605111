//! Defaults of the server that would change what the statements mean, if the session did not set them.

use jobs::testing::store::{Capability, contract};
use mysql_async::prelude::Queryable;
use support::mariadb_server::is_mariadb;
use support::mysql_subject;

use super::started_with;

const HOSTILE: &[&str] = &[
    "autocommit=0",
    "transaction-isolation=SERIALIZABLE",
    "sysdate-is-now",
    "default-storage-engine=MyISAM",
    "character-set-server=utf8mb4",
    "collation-server=utf8mb4_turkish_ci",
    "innodb-default-row-format=compact",
    "default-time-zone=+05:45",
    "innodb-lock-wait-timeout=100",
];

/// Those that would keep the test's own users from being made.
fn after_the_start() -> String {
    let sql_mode = "ANSI,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE";
    // Only MariaDB has this mode.
    let further = if is_mariadb() { ",ORACLE" } else { "" };
    let [read_only, _] = variables();
    format!(
        "SET GLOBAL {read_only} = 1, GLOBAL completion_type = 1, GLOBAL sql_safe_updates = 1,
        GLOBAL sql_select_limit = 1, GLOBAL foreign_key_checks = 0, GLOBAL wait_timeout = 2,
        GLOBAL sql_mode = '{sql_mode}{further}'"
    )
}

/// What the server calls the defaults of transactions. MariaDB has the names of MySQL only since 11.1.
fn variables() -> [&'static str; 2] {
    if is_mariadb() {
        ["tx_read_only", "tx_isolation"]
    } else {
        ["transaction_read_only", "transaction_isolation"]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defaults_of_the_server_do_not_matter() {
    let server = started_with(HOSTILE).await;
    server.client().await.query_drop(after_the_start()).await.expect("settings");
    // The control: a plain session has them.
    let [read_only, isolation] = variables();
    let shown = format!(
        "SELECT CONCAT_WS(' ', @@autocommit + 0, @@{isolation}, @@{read_only} + 0, @@completion_type, @@wait_timeout)"
    );
    let shown: Option<String> = server.client().await.query_first(shown).await.expect("an answer");
    assert_eq!(shown.as_deref(), Some("0 SERIALIZABLE 1 CHAIN 2"));
    contract(
        async || mysql_subject::at(&server, server.url()).await,
        &[Capability::Lock, Capability::Notifications],
    )
    .await;
}
