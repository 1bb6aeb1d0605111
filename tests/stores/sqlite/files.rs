//! Databases that are created by many at once, removed, replaced, damaged, or not ours.

use jobs::store::sqlite::SqliteStore;
use jobs::store::{Store, StoreErrorKind};

use super::{KEY, TestDatabase, apply, swap_from};

#[test]
fn many_threads_create_a_database_at_once() {
    for _ in 0..5 {
        let database = TestDatabase::new();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| database.open());
            }
        });
    }
}

/// SQLite itself continues with the old file, which is the control.
#[cfg(unix)]
#[tokio::test]
async fn a_database_that_is_replaced_or_removed_is_not_used_any_longer() {
    for replaced in [true, false] {
        let database = TestDatabase::new();
        let store = database.open();
        let first = apply(&store, &swap_from(None)).await;
        let plain = database.other_program();
        let count = || plain.query_row("SELECT count(*) FROM job_lock", [], |row| row.get::<_, i64>(0));
        count().expect("a row");
        for end in ["", "-wal", "-shm"] {
            std::fs::remove_file(format!("{}{end}", database.path.display()))
                .expect("a file of the database");
        }
        let other = replaced.then(|| database.open());
        assert_eq!(count(), Ok(1), "the control: a plain connection still has the removed file");
        let swapped = store.swap(KEY, &swap_from(Some(first.version))).await;
        match other {
            // Both see the new file.
            Some(other) => {
                assert!(swapped.is_ok_and(|reply| matches!(reply, jobs::store::SwapReply::Changed(_))));
                assert_eq!(store.look(KEY).await.expect("a look").version, None);
                let second = apply(&other, &swap_from(None)).await;
                assert_eq!(store.look(KEY).await.expect("a look").version, Some(second.version));
            }
            None => {
                assert_eq!(swapped.expect_err("it is gone").kind(), StoreErrorKind::Unreachable);
                assert_eq!(store.look(KEY).await.expect_err("gone").kind(), StoreErrorKind::Unreachable);
                assert!(!database.path.exists(), "an empty store would let ticks run twice");
            }
        }
    }
}

/// SQLite itself continues with the old log, beside processes that have a new one, which is the control.
#[cfg(unix)]
#[tokio::test]
async fn a_store_whose_write_ahead_log_is_removed_grants_nothing_any_longer() {
    for removed in [&["-wal", "-shm"][..], &["-wal"], &["-shm"]] {
        let database = TestDatabase::new();
        let store = database.open();
        let first = apply(&store, &swap_from(None)).await;
        let plain = database.other_program();
        plain.execute_batch("CREATE TABLE control (n)").expect("a table");
        for end in removed {
            std::fs::remove_file(format!("{}{end}", database.path.display())).expect("a file of the log");
        }
        plain.execute_batch("INSERT INTO control VALUES (1)").expect("the control: it does not notice");
        for _ in 0..2 {
            let swap = store.swap(KEY, &swap_from(Some(first.version))).await.expect_err("a swap");
            let look = store.look(KEY).await.expect_err("a look");
            for error in [swap, look] {
                assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
                assert!(error.to_string().contains("restart all servers"), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_damaged_record_is_an_error_and_others_are_not_affected() {
    let database = TestDatabase::new();
    let store = database.open();
    apply(&store, &swap_from(None)).await;
    let program = database.other_program();
    for (column, damage) in [("state", "{"), ("state", r#"{"format":99}"#), ("version", "17")] {
        let before: String = program
            .query_row(&format!("SELECT {column} FROM job_lock"), [], |row| row.get(0))
            .expect("a row");
        program.execute(&format!("UPDATE job_lock SET {column} = ?1"), [damage]).expect("damage");
        for error in [store.look(KEY).await.err(), store.swap(KEY, &swap_from(None)).await.err()] {
            assert_eq!(error.expect("an error").kind(), StoreErrorKind::Unreadable);
        }
        assert_eq!(store.look("other").await.expect("a look").version, None);
        assert_eq!(store.list(None).await.expect("a list").keys, []);
        program.execute(&format!("UPDATE job_lock SET {column} = ?1"), [before]).expect("a repair");
    }
    store.look(KEY).await.expect("the control: what was changed is all that was wrong");
}

#[test]
fn a_file_or_table_that_is_not_ours_is_a_clear_error() {
    let database = TestDatabase::new();
    std::fs::write(&database.path, "this is a text, and not a database ".repeat(100)).expect("a file");
    let error = SqliteStore::open(&database.path, None).expect_err("no database");
    assert_eq!(error.kind(), StoreErrorKind::Unreadable, "{error}");

    let database = TestDatabase::new();
    database.other_program().execute_batch("CREATE TABLE job_lock (name TEXT)").expect("a table");
    let error = SqliteStore::open(&database.path, None).expect_err("another table");
    assert_eq!(error.kind(), StoreErrorKind::Unreadable, "{error}");
    assert!(error.to_string().contains("use a database of its own"), "{error}");

    let error = SqliteStore::open("/no-such-folder/jobs.db", None).expect_err("no folder");
    assert_eq!(error.kind(), StoreErrorKind::Unreachable, "{error}");
    assert!(error.to_string().contains("check that its folder exists"), "{error}");
}
