//! `jobsctl plan`: what a new program would change.

use jobs::Job;
use support::redis_server::RedisServer;

use super::kit::{NAMESPACE, builder, run};

fn job(key: &str, every: &str, ttl: &str) -> Job {
    Job::builder(key).every(every).ttl(ttl).run(|_| async {}).build().expect("a job")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plan_names_jobs_that_are_added_removed_rescheduled_and_changed() {
    let redis = RedisServer::start();
    let old =
        [job("moved", "0 3 * * *", "60s"), job("changed", "0 4 * * *", "60s"), job("removed", "1h", "60s")];
    let server = builder(&redis.url()).jobs(old).start_all().await.expect("it starts");
    // Another program on the same store is not concerned.
    let other = builder(&redis.url()).job(job("other", "1h", "60s")).start_all().await.expect("it starts");
    let new =
        [job("moved", "0 5 * * *", "60s"), job("changed", "0 4 * * *", "30s"), job("added", "1h", "60s")];
    let manifest =
        jobs::builder().without_annotated().version("2.0").jobs(new).manifest().expect("a manifest");
    let file = std::env::temp_dir().join(format!("manifest-{}.json", std::process::id()));
    std::fs::write(&file, manifest.to_json()).expect("it is written");
    let path = file.to_str().expect("a path");
    let plan = ["plan", path, "--url", &redis.url(), "--namespace", NAMESPACE];

    let mut document = run(&[&plan[..], &["--json"]].concat()).await.json();
    for _ in 0..100 {
        // The manifest of the old program comes with its first heartbeat.
        if document["changes"].as_array().unwrap().len() == 4 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        document = run(&[&plan[..], &["--json"]].concat()).await.json();
    }
    let changes = document["changes"].as_array().unwrap();
    let shown: Vec<_> = changes
        .iter()
        .map(|change| (change["key"].as_str().unwrap(), change["change"].as_str().unwrap()))
        .collect();
    let wanted =
        [("added", "added"), ("changed", "changed"), ("moved", "rescheduled"), ("removed", "removed")];
    assert_eq!(shown, wanted, "{document:#}");
    assert_eq!(changes[1]["text"], "ttl 1m → 30s");
    assert!(
        changes[2]["text"].as_str().unwrap().starts_with("0 3 * * * UTC → 0 5 * * * UTC, next at "),
        "{changes:?}"
    );

    let text = run(&[&plan[..], &["--exit-code"]].concat()).await;
    assert_eq!(text.code, 1, "{text:?}");
    assert!(text.out.contains("the new program 2.0 has 3 jobs") && !text.out.contains("other"), "{text:?}");
    std::fs::remove_file(&file).expect("it is there");
    server.shutdown().await;
    other.shutdown().await;
}

#[tokio::test]
async fn file_that_is_no_manifest_is_wrong_usage() {
    let file = std::env::temp_dir().join(format!("no-manifest-{}.json", std::process::id()));
    std::fs::write(&file, "{}").unwrap();
    let folder = support::folder::TempFolder::new();
    let url = format!("file://{}", folder.path().display());
    let printed = run(&["plan", file.to_str().unwrap(), "--url", &url]).await;
    assert_eq!(printed.code, 2, "{printed:?}");
    assert!(printed.errors.contains("JOBS_MANIFEST=1"), "{printed:?}");
    std::fs::remove_file(&file).unwrap();
}

const AS_PROGRAM: &str = "JOBS_TEST_PROGRAM_WITH_A_MANIFEST";

/// Also the program that is started for its manifest. Its store does not exist, so it must print before it opens one.
#[test]
fn program_prints_its_manifest_before_it_opens_the_store_and_exits() {
    if std::env::var_os(AS_PROGRAM).is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let builder = builder("redis://127.0.0.1:1").version("2.0").job(job("import", "0 3 * * *", "60s"));
        let started = runtime.block_on(builder.start_all());
        panic!("it did not exit: {}", started.is_ok());
    }
    let mut program = std::process::Command::new(std::env::current_exe().expect("a program"));
    program.args([
        "--exact",
        "plan::program_prints_its_manifest_before_it_opens_the_store_and_exits",
        "--nocapture",
    ]);
    let output = program.env(AS_PROGRAM, "1").env("JOBS_MANIFEST", "1").output().expect("it starts");
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{printed}");
    // The test program prints its own first line.
    let json = &printed[printed.find('{').expect("JSON")..];
    let manifest = jobs::fleet::Manifest::from_json(json).expect("a manifest");
    assert_eq!(manifest.app_version.as_deref(), Some("2.0"));
    assert_eq!(manifest.job("import").and_then(|job| job.schedule.as_deref()), Some("0 3 * * * UTC"));
}
