//! The servers of a fleet: announced, renewed, gone.

use std::time::Duration;

use crate::Timestamp;
use crate::fleet::{JobInfo, RunningInfo, ServerInfo};
use crate::store::Note;
use crate::testing::store::Client;
use serde_json::json;

use crate::store::decide::tests::{bench, subject};
use crate::testing::store::bench::{Bench, LONG, MOMENT, SHORT};

pub(crate) async fn announce(client: &Client, server: &str, ttl: Duration) -> Vec<Note> {
    say(client, server, ttl, &about(server, 0)).await
}

async fn say(client: &Client, server: &str, ttl: Duration, about: &str) -> Vec<Note> {
    client.announce(server, about, ttl).await.expect("announce").reply
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

async fn servers(client: &Client) -> Vec<ServerInfo> {
    let mut servers = client.servers().await.expect("servers").reply;
    servers.sort_by(|a, b| a.id.cmp(&b.id));
    servers
}

async fn listed(client: &Client) -> Vec<String> {
    servers(client).await.into_iter().map(|server| server.id).collect()
}

#[tokio::test(start_paused = true)]
async fn announced_server_is_listed_with_all_that_it_announced() {
    let client = &bench().client;
    assert_eq!(servers(client).await, []);
    for fence in [5, i64::MAX] {
        // The newest announcement counts.
        say(client, "a", LONG, &about("a", fence)).await;
        let servers = servers(client).await;
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

#[tokio::test(start_paused = true)]
async fn server_that_left_is_gone_and_may_come_back() {
    let client = &bench().client;
    for server in ["a", "b"] {
        announce(client, server, LONG).await;
    }
    assert_eq!(listed(client).await, ["a", "b"]);
    for _ in 0..2 {
        client.leave("a").await.expect("leave");
        assert_eq!(listed(client).await, ["b"]);
    }
    announce(client, "a", LONG).await;
    assert_eq!(listed(client).await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn server_that_stops_announcing_itself_is_gone() {
    let client = &bench().client;
    let both = ["renewed", "silent"];
    for server in both {
        announce(client, server, LONG).await;
    }
    assert_eq!(listed(client).await, both);
    for server in both {
        announce(client, server, SHORT).await;
    }
    announce(client, "renewed", LONG).await;
    tokio::time::sleep(SHORT + MOMENT).await;
    for _ in 0..2 {
        assert_eq!(listed(client).await, ["renewed"]);
    }
    announce(client, "silent", LONG).await;
    assert_eq!(listed(client).await, both);
}

#[tokio::test(start_paused = true)]
async fn namespaces_have_fleets_of_their_own() {
    let subject = &subject();
    let [plain, blue, green] =
        [Bench::of(subject), Bench::in_namespace(subject, "blue"), Bench::in_namespace(subject, "green")]
            .map(|bench| bench.client);
    announce(&blue, "a", LONG).await;
    announce(&green, "b", LONG).await;
    green.leave("a").await.expect("leave");
    let fleets = [listed(&plain).await, listed(&blue).await, listed(&green).await];
    assert_eq!(fleets, [vec![], vec!["a".to_owned()], vec!["b".to_owned()]]);
}

#[tokio::test(start_paused = true)]
async fn announcement_that_cannot_be_read_hides_no_other() {
    let client = &bench().client;
    for (server, about) in [("a", "{\"id\": 7}"), ("b", "not JSON \" \\"), ("c", "")] {
        say(client, server, LONG, about).await;
    }
    announce(client, "d", LONG).await;
    assert_eq!(listed(client).await, ["d"]);
}

#[tokio::test(start_paused = true)]
async fn odd_server_names_are_separate_servers() {
    let client = &bench().client;
    let long = "host-".repeat(60);
    let mut odd = ["..", "a", "A", "a/b", "a:b", "a.json", "γ {1}", long.as_str()];
    odd.sort_unstable();
    for server in odd {
        announce(client, server, LONG).await;
    }
    assert_eq!(listed(client).await, odd);
    for server in odd {
        client.leave(server).await.expect("leave");
    }
    assert_eq!(listed(client).await, Vec::<String>::new());
}
