//! `jobsctl watch`, in a terminal and without one.

use std::process::{Command, Stdio};

use support::redis_server::RedisServer;

use super::kit::{Fleet, NAMESPACE};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_redraws_a_terminal_and_restores_it() {
    let redis = RedisServer::start();
    let fleet = Fleet::start(&redis.url()).await;
    fleet.until(&["show", "slow"], |shown| shown["job"]["current"]["progress"]["done"] == 3).await;
    let program = env!("CARGO_BIN_EXE_jobsctl");
    let watch = format!(
        "stty rows 24 cols 90; {program} watch --interval 300ms --count 3 --url {} --namespace {NAMESPACE}",
        redis.url()
    );
    // `script` gives the program a terminal of its own.
    let mut command = Command::new("script");
    command.args(["-qec", &watch, "/dev/null"]).stdin(Stdio::null()).env("TERM", "xterm-256color");
    let output = tokio::task::spawn_blocking(move || command.output().expect("script is installed"));
    let output = output.await.unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    let frames: Vec<_> = shown.split("\x1b[H").skip(1).collect();
    assert_eq!(frames.len(), 3, "{shown:?}");
    for frame in &frames {
        assert!(frame.contains("2 servers  4 jobs"), "{frame:?}");
        assert!(frame.contains("[██████··············] 30%"), "{frame:?}");
        assert!(frame.contains("FAILED") || frame.contains("FAILING"), "{frame:?}");
        assert!(frame.contains("\x1b["), "in colour: {frame:?}");
        assert!(frame.lines().count() <= 24, "it fits the terminal: {frame:?}");
        let widest = frame.lines().map(|line| anstream::adapter::strip_str(line).to_string().chars().count());
        assert!(widest.max() <= Some(90), "{frame:?}");
    }
    assert!(shown.contains("\x1b[?1049h") && shown.trim_end().ends_with("\x1b[?1049l"), "{shown:?}");

    let plain = fleet.jobs(&["watch", "--count", "1"]).await;
    assert!(plain.code == 0 && plain.out.contains("30%") && !plain.out.contains('\x1b'), "{plain:?}");
    fleet.shut_down().await;
}
