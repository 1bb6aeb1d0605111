//! Defaults of the server that would change what the statements mean, if the session did not set them.

use jobs::testing::store::{Capability, contract};
use mysql_async::prelude::Queryable;
use support::mysql_subject;

use super::started_with;

const HOSTILE: &[&str] = &[
    "autocommit=0",
    "transaction-isolation=SERIALIZABLE",
    "sysdate-is-now",
    "default-storage-engine=MyISAM",
    "character-set-server=utf8mb3",
    "collation-server=utf8mb3_turkish_ci",
    "innodb-default-row-format=compact",
    "default-time-zone=+05:45",
    "innodb-lock-wait-timeout=100",
];

/// Those that would keep the test's own users from being made.
const AFTER_THE_START: &str =
    "SET GLOBAL tx_read_only = 1, GLOBAL completion_type = 1, GLOBAL sql_safe_updates = 1,
    GLOBAL sql_select_limit = 1, GLOBAL foreign_key_checks = 0, GLOBAL wait_timeout = 2,
    GLOBAL sql_mode = 'ANSI,ORACLE,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defaults_of_the_server_do_not_matter() {
    let server = started_with(HOSTILE).await;
    server.client().await.query_drop(AFTER_THE_START).await.expect("settings");
    // The control: a plain session has them.
    let shown = "SELECT CONCAT_WS(' ', @@autocommit, @@tx_isolation, @@tx_read_only, @@completion_type, @@wait_timeout)";
    let shown: Option<String> = server.client().await.query_first(shown).await.expect("an answer");
    assert_eq!(shown.as_deref(), Some("OFF SERIALIZABLE ON CHAIN 2"));
    contract(
        async || mysql_subject::at(&server, server.url()).await,
        &[Capability::Lock, Capability::Notifications],
    )
    .await;
}
