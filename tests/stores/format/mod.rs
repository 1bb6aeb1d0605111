//! The stored format: what an earlier version wrote is read, and the fleet continues from it.
//!
//! `3/*.jsonl` is what this crate wrote on each store when format 3 was frozen. These files never change. A new format gets
//! a folder of its own, written by `JOBS_TEST_WRITE_FORMAT=1 cargo test --test stores format::`.

mod beside;
mod contents;
mod data;
mod later_fields;
mod written;

use std::path::{Path, PathBuf};

use data::{Data, Kind};
use jobs::diagnosis::FindingKind;
use jobs::store::{FORMAT, StoreErrorKind};
use jobs::testing::store::Client;

fn folder(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/stores/format/{format}"))
}

/// The formats whose data is frozen.
fn formats() -> Vec<u32> {
    let entries = std::fs::read_dir(folder(FORMAT).with_file_name("")).expect("a folder").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The frozen data of this version's format, line by line.
fn frozen(kind: Kind) -> Vec<String> {
    frozen_as(FORMAT, kind)
}

fn frozen_as(format: u32, kind: Kind) -> Vec<String> {
    let path = folder(format).join(format!("{}.jsonl", kind.name()));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(str::to_owned).collect()
}

/// Returns a store with the data that this version writes.
async fn write(kind: Kind) -> Data {
    let data = Data::empty(kind);
    written::write(&Client::of(data.store())).await;
    data.lock_by_another_program().await;
    data
}

/// Writes the data of a new format. Changes nothing that was written before.
#[tokio::test]
async fn data_of_this_format_is_written_once() {
    if std::env::var("JOBS_TEST_WRITE_FORMAT").is_ok() && !folder(FORMAT).exists() {
        std::fs::create_dir(folder(FORMAT)).expect("a new folder");
        for kind in Kind::ALL {
            let data = write(kind).await;
            let text: Vec<_> = data.dump().await.into_iter().map(|line| line + "\n").collect();
            std::fs::write(folder(FORMAT).join(format!("{}.jsonl", kind.name())), text.concat())
                .expect("a new file");
        }
    }
    for kind in Kind::ALL {
        assert!(!frozen(kind).is_empty(), "{kind:?}");
    }
}

/// The control of the tests below, which read what an earlier version wrote: this version writes the same kinds of keys.
#[tokio::test]
async fn this_version_reads_what_it_writes() {
    for kind in Kind::ALL {
        let data = write(kind).await;
        let fences = data::fences(kind, &data.dump().await);
        contents::check(&data, &fences).await;
        contents::check_that_the_fleet_continues(&data).await;
    }
}

#[tokio::test]
async fn frozen_data_is_read_and_the_fleet_continues_from_it() {
    let formats = formats();
    assert!(formats.contains(&3) && formats.contains(&FORMAT), "{formats:?}");
    for (format, kind) in formats.into_iter().flat_map(|format| Kind::ALL.map(|kind| (format, kind))) {
        let lines = frozen_as(format, kind);
        let data = Data::load(kind, &lines).await;
        contents::check(&data, &data::fences(kind, &lines)).await;
        contents::check_that_the_fleet_continues(&data).await;
    }
}

/// The control: a reader that loses one field, or a bit of a fence, is noticed.
#[tokio::test]
async fn field_that_is_lost_from_the_frozen_data_is_noticed() {
    for (field, lost) in [
        ("\"mark\":", "\"mbrk\":"),
        ("\"released\":", "\"relebsed\":"),
        ("\"pause\":", "\"pbuse\":"),
        ("\"done\":{", "\"dpne\":{"),
        ("\"slots\":", "\"slpts\":"),
        ("\"broken_by\":", "\"brpken_by\":"),
        ("\"fence\":1", "\"fence\":2"),
    ] {
        let frozen = frozen(Kind::Files);
        let fences = data::fences(Kind::Files, &frozen);
        let lines = data::map_documents(Kind::Files, &frozen, |json| json.replace(field, lost));
        let checked = tokio::spawn(async move {
            let data = Data::load(Kind::Files, &lines).await;
            contents::check(&data, &fences).await;
            contents::check_that_the_fleet_continues(&data).await;
        });
        assert!(checked.await.is_err(), "a lost {field} is not noticed");
    }
}

/// A later version of the same format may add optional fields everywhere.
#[tokio::test]
async fn fields_that_this_version_does_not_know_are_ignored() {
    for kind in Kind::ALL {
        let lines = frozen(kind);
        let later = data::map_documents(kind, &lines, later_fields::add);
        assert!(later.iter().zip(&lines).filter(|(later, line)| later != line).count() > 20, "{kind:?}");
        let data = Data::load(kind, &later).await;
        contents::check(&data, &data::fences(kind, &lines)).await;
        contents::check_that_the_fleet_continues(&data).await;
    }
}

/// The rule that `FORMAT` states: a server that does not know a field writes the state without it.
#[tokio::test]
async fn unknown_field_is_lost_when_the_state_is_written_back() {
    for kind in Kind::ALL {
        let data = Data::load(kind, &data::map_documents(kind, &frozen(kind), later_fields::add)).await;
        let state_of = async |key: &str| {
            let states = data::states(kind, &data.dump().await);
            states.get(key).unwrap_or_else(|| panic!("{kind:?}: no {key}")).clone()
        };
        assert!(state_of("paused").await.contains(later_fields::NAME), "{kind:?}");
        let client = Client::of(data.store());
        client.history("paused").await.expect("a history");
        assert!(state_of("paused").await.contains(later_fields::NAME), "a read changes nothing: {kind:?}");
        client.set_paused("paused", false).await.expect("a resumption");
        assert!(!state_of("paused").await.contains(later_fields::NAME), "{kind:?}");
    }
}

#[tokio::test]
async fn newer_format_is_refused_on_every_store_and_left_as_it_is() {
    let format = |format: u32| format!("\"format\":{format}");
    let newer = |json: &str| json.replace(&format(FORMAT), &format(FORMAT + 1));
    let says = format!("has format {}, and this version reads format {FORMAT}", FORMAT + 1);
    for kind in Kind::ALL {
        let data = Data::load(kind, &data::map_documents(kind, &frozen(kind), newer)).await;
        let (client, before) = (Client::of(data.store()), data.dump().await);
        for key in contents::KEYS {
            for (what, error) in [
                ("look", client.store().look(key).await.err()),
                ("claim", client.claim(key, &contents::next_claim()).await.err()),
                ("history", client.history(key).await.err()),
                ("pause", client.set_paused(key, true).await.err()),
                ("request", client.request(key, "id", "a", contents::LONG).await.err()),
            ] {
                let error = error.unwrap_or_else(|| panic!("{kind:?}: {what} of {key} succeeds"));
                assert_eq!(error.kind(), StoreErrorKind::Unreadable, "{kind:?}, {what} of {key}: {error}");
                assert!(error.to_string().contains(&says), "{kind:?}, {what} of {key}: {error}");
            }
        }
        let records = client
            .store()
            .records(&["failed".to_owned()], usize::MAX)
            .await
            .expect_err("records of a newer format");
        assert_eq!(records.kind(), StoreErrorKind::Unreadable, "{kind:?}: {records}");
        let jobs = contents::KEYS.map(str::to_owned);
        let findings = client.store().diagnose(&jobs).await.expect("a diagnosis");
        let reported = findings.iter().any(|finding| finding.kind == FindingKind::Unreadable);
        assert!(reported, "{kind:?}: {findings:?}");
        assert_eq!(client.store().list(None).await.expect("a list").keys.len(), foreign_locks(kind));
        assert_eq!(data.dump().await, before, "{kind:?}");
    }
}

/// Keys without a record that are listed.
fn foreign_locks(kind: Kind) -> usize {
    usize::from(matches!(kind, Kind::Redis))
}
