//! What a request leaves behind in a session of the application: nothing.

use jobs::Timestamp;
use jobs::history::{Skip, SkipRecord};
use jobs::store::{Change, JobRecord, Note, Store, Swap, Topic};
use std::time::Duration;
use support::pools::{ApplicationPool, PoolKind};

use super::{KEY, apply, database_and_pool, on_every_pool, swap_from, unused_name};

on_every_pool! {
    session_is_as_it_was_after_every_kind_of_request
    change_of_a_session_is_noticed
    settings_of_the_applications_sessions_do_not_matter
}

/// Everything that a session has of its own.
async fn shown(pool: &ApplicationPool, kind: PoolKind) -> Vec<Option<String>> {
    let mut own = pool.get().await;
    let queries: &[&str] = if kind.is_postgres() {
        &[
            "SELECT pg_backend_pid()",
            "SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) FROM pg_settings",
            // Those of `sqlx` itself have numbers.
            "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'jobs%'",
            "SELECT string_agg(channel, ' ') FROM pg_listening_channels() AS channel",
            "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'",
            "SELECT count(*) FROM pg_cursors",
        ]
    } else {
        &[
            "SELECT CONNECTION_ID()",
            "SELECT GROUP_CONCAT(CONCAT(variable_name, '=', variable_value) ORDER BY variable_name SEPARATOR ' ')
             FROM information_schema.session_variables WHERE variable_name NOT IN
             ('timestamp', 'rand_seed1', 'rand_seed2', 'pseudo_thread_id', 'last_insert_id', 'identity',
              'error_count', 'warning_count', 'gtid_binlog_pos', 'gtid_current_pos', 'last_gtid', 'insert_id')",
            "SELECT CONCAT_WS(',', @now, @fence, @finished, @applied, @jobs_sql_mode, @jobs_wait_timeout, @jobs_lock_wait_timeout)",
            "SELECT @@in_transaction",
            "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '%job_lock%' AND id <> CONNECTION_ID()",
        ]
    };
    let mut shown = Vec::new();
    for query in queries {
        shown.push(
            own.ask(&format!(
                "{}{query}",
                if kind.is_postgres() { "" } else { "SET SESSION group_concat_max_len = 1000000; " }
            ))
            .await,
        );
    }
    shown
}

async fn every_kind_of_request(store: &dyn Store) {
    let at = Timestamp::now();
    let records = vec![JobRecord::Skip(SkipRecord::new(at, Skip::Held, "a", at))];
    let swap = swap_from(None);
    let first = apply(
        store,
        &Swap { change: Change { records, keep: 9, notify: true, ..swap.change.clone() }, ..swap },
    )
    .await;
    store.swap(KEY, &swap_from(None)).await.expect("refused");
    apply(store, &swap_from(Some(first.version))).await;
    store.look(KEY).await.expect("a look");
    store.list(None).await.expect("a list");
    store.records(&[KEY.to_owned()], 9).await.expect("records");
    let note = Note { name: "a".to_owned(), text: "b".into() };
    store.put_note(Topic::Servers, &note, Duration::from_secs(5)).await.expect("a note");
    store.notes(Topic::Servers).await.expect("notes");
    store.put_note(Topic::Servers, &note, Duration::ZERO).await.expect("no note");
    store.diagnose(&[KEY.to_owned()]).await.expect("findings");
    assert!(store.listen(KEY).await.expect("an answer").is_none(), "a connection would have to be kept");
    // The sweep follows the note.
    tokio::time::sleep(Duration::from_millis(200)).await;
}

/// What a session may look like: nothing that the store would choose.
fn settings(kind: PoolKind) -> &'static str {
    if kind.is_postgres() {
        "SET lock_timeout = '7s'; SET plan_cache_mode = force_custom_plan; SET search_path = pg_catalog;
         SET default_transaction_isolation = 'serializable'; SET TimeZone = 'Asia/Kolkata';
         SET standard_conforming_strings = off; SET statement_timeout = '9s'"
    } else {
        "SET SESSION wait_timeout = 777, lock_wait_timeout = 778, innodb_lock_wait_timeout = 779, completion_type = 1,
           sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE', sql_safe_updates = 1,
           sql_select_limit = 1, foreign_key_checks = 0, unique_checks = 0, time_zone = '+05:45', autocommit = 0;
         SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE; COMMIT AND NO CHAIN"
    }
}

async fn session_is_as_it_was_after_every_kind_of_request(kind: PoolKind) {
    let (_database, pool) = database_and_pool(kind, 1).await;
    // The tables are made.
    pool.store(&unused_name()).look(KEY).await.expect("an answer");
    for special in [false, true] {
        if special {
            pool.ask(settings(kind)).await;
        }
        let before = ended(&pool, kind).await;
        every_kind_of_request(&*pool.store(&unused_name())).await;
        assert_eq!(ended(&pool, kind).await, before, "special: {special}");
    }
}

/// The same, and outside a transaction afterwards, with every default of the session.
async fn ended(pool: &ApplicationPool, kind: PoolKind) -> Vec<Option<String>> {
    let shown = shown(pool, kind).await;
    if !kind.is_postgres() {
        pool.ask("COMMIT AND NO CHAIN").await;
    }
    shown
}

/// The control: a session with another setting is not the same.
async fn change_of_a_session_is_noticed(kind: PoolKind) {
    let (_database, pool) = database_and_pool(kind, 1).await;
    let before = ended(&pool, kind).await;
    assert_eq!(ended(&pool, kind).await, before);
    let changes: &[&str] = if kind.is_postgres() {
        &["SET lock_timeout = '50ms'", "LISTEN jobs_freed", "PREPARE jobs_look AS SELECT 1"]
    } else {
        &["SET SESSION wait_timeout = 2", "SET SESSION innodb_lock_wait_timeout = 1", "SET @now = 1", "BEGIN"]
    };
    for change in changes {
        let before = ended(&pool, kind).await;
        pool.ask(change).await;
        assert_ne!(ended(&pool, kind).await, before, "{change}");
    }
}

async fn settings_of_the_applications_sessions_do_not_matter(kind: PoolKind) {
    let (_database, pool) = database_and_pool(kind, 1).await;
    // Before the tables are there.
    pool.ask(settings(kind)).await;
    let session = pool.get().await.session().await;
    if !kind.is_postgres() {
        pool.ask("COMMIT AND NO CHAIN").await;
    }
    let store = pool.store(&unused_name());
    every_kind_of_request(&*store).await;
    if !kind.is_postgres() {
        let mut own = pool.get().await;
        own.ask("COMMIT AND NO CHAIN").await;
    }
    for name in ["a", "b", "c"] {
        let note = Note { name: name.to_owned(), text: "text".into() };
        store.put_note(Topic::Servers, &note, Duration::from_secs(60)).await.expect("a note");
    }
    assert_eq!(store.notes(Topic::Servers).await.expect("notes").notes.len(), 3);
    assert_eq!(store.records(&[KEY.to_owned()], 9).await.expect("records")[0].skips.len(), 1);
    assert_eq!(pool.get().await.session().await, session, "always the same session");
}
