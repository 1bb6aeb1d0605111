//! Which servers are there.

use std::time::Duration;

use crate::Timestamp;
use crate::store::{Announcement, JobInfo, RequestHint, RunningInfo, ServerInfo, Store};
use serde_json::json;

use super::super::Subject;
use super::super::bench::{LONG, MOMENT, SHORT};

pub(super) async fn announce(store: &dyn Store, server: &str, ttl: Duration) -> Vec<RequestHint> {
    say(store, server, ttl, &about(server, 0)).await
}

async fn say(store: &dyn Store, server: &str, ttl: Duration, about: &str) -> Vec<RequestHint> {
    let announcement = Announcement { server: server.to_owned(), about: about.into(), ttl };
    store.announce(&announcement).await.expect("announce").reply
}

fn about(server: &str, fence: i64) -> String {
    let about = json!({
        "id": server,
        "started": 1_800_000_000_000_001_i64,
        "announced": 1_800_000_000_000_002_i64,
        "version": "1.2.3",
        "jobs": [{ "key": "import", "hash": "0f" }, { "key": "etl/daily ☃", "hash": "\"" }],
        "clock_ahead_micros": -1_500,
        "running": [{ "key": "import", "fence": fence }],
        "what a newer version adds": { "nothing": null },
    });
    about.to_string()
}

async fn servers(store: &dyn Store) -> Vec<ServerInfo> {
    let mut servers = store.servers().await.expect("servers").reply;
    servers.sort_by(|a, b| a.id.cmp(&b.id));
    servers
}

async fn listed(store: &dyn Store) -> Vec<String> {
    servers(store).await.into_iter().map(|server| server.id).collect()
}

pub(super) async fn an_announced_server_is_listed_with_all_that_it_said(subject: &Subject) {
    let store = &*subject.store;
    assert_eq!(servers(store).await, []);
    for fence in [5, i64::MAX] {
        // The newest announcement counts.
        say(store, "a", LONG, &about("a", fence)).await;
        let servers = servers(store).await;
        let [server] = servers.as_slice() else { panic!("one server: {servers:?}") };
        assert_eq!((server.id.as_str(), server.version.as_str()), ("a", "1.2.3"));
        assert_eq!(server.started, Timestamp::from_micros(1_800_000_000_000_001));
        assert_eq!(server.clock_ahead_micros, -1_500);
        let jobs = [("import", "0f"), ("etl/daily ☃", "\"")];
        let jobs = jobs.map(|(key, hash)| JobInfo { key: key.to_owned(), hash: hash.to_owned() });
        assert_eq!(server.jobs, jobs);
        assert_eq!(server.running, [RunningInfo { key: "import".to_owned(), fence }]);
    }
}

pub(super) async fn a_server_that_left_is_gone_and_may_come_back(subject: &Subject) {
    let store = &*subject.store;
    for server in ["a", "b"] {
        announce(store, server, LONG).await;
    }
    assert_eq!(listed(store).await, ["a", "b"]);
    for _ in 0..2 {
        store.leave("a").await.expect("leave");
        assert_eq!(listed(store).await, ["b"]);
    }
    announce(store, "a", LONG).await;
    assert_eq!(listed(store).await, ["a", "b"]);
}

pub(super) async fn a_server_that_falls_silent_is_gone(subject: &Subject) {
    let store = &*subject.store;
    let both = ["renewed", "silent"];
    for server in both {
        announce(store, server, LONG).await;
    }
    assert_eq!(listed(store).await, both);
    for server in both {
        announce(store, server, SHORT).await;
    }
    announce(store, "renewed", LONG).await;
    tokio::time::sleep(SHORT + MOMENT).await;
    for _ in 0..2 {
        assert_eq!(listed(store).await, ["renewed"]);
    }
    announce(store, "silent", LONG).await;
    assert_eq!(listed(store).await, both);
}

pub(super) async fn namespaces_have_fleets_of_their_own(subject: &Subject) {
    let (blue, green) = (subject.in_namespace("blue"), subject.in_namespace("green"));
    announce(&*blue, "a", LONG).await;
    announce(&*green, "b", LONG).await;
    green.leave("a").await.expect("leave");
    let fleets = [listed(&*subject.store).await, listed(&*blue).await, listed(&*green).await];
    assert_eq!(fleets, [vec![], vec!["a".to_owned()], vec!["b".to_owned()]]);
}

pub(super) async fn an_announcement_that_cannot_be_read_hides_no_other(subject: &Subject) {
    let store = &*subject.store;
    for (server, about) in [("a", "{\"id\": 7}"), ("b", "not JSON \" \\"), ("c", "")] {
        say(store, server, LONG, about).await;
    }
    announce(store, "d", LONG).await;
    assert_eq!(listed(store).await, ["d"]);
}

pub(super) async fn odd_servers_are_servers_of_their_own(subject: &Subject) {
    let store = &*subject.store;
    let long = "host-".repeat(60);
    let mut odd = ["..", "a", "A", "a/b", "a:b", "a.json", "γ {1}", long.as_str()];
    odd.sort_unstable();
    for server in odd {
        announce(store, server, LONG).await;
    }
    assert_eq!(listed(store).await, odd);
    for server in odd {
        store.leave(server).await.expect("leave");
    }
    assert_eq!(listed(store).await, Vec::<String>::new());
}
