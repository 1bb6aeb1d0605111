//! Loses a tick on Redis so many times (`LOSSES`), with a Prometheus recorder installed if `RECORDER` is set. With `SHOW` it
//! prints how many losses the recorder has counted.
//!
//! For `runtime/benches/losing_claim/measure`, which counts its instructions.

use jobs::store::redis::RedisStore;
use jobs::testing::store::losing_server::LosingServer;
use metrics_exporter_prometheus::PrometheusBuilder;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let url = std::env::var("REDIS_URL").expect("REDIS_URL names a Redis that may be written to");
    let losses: u32 = std::env::var("LOSSES").map_or(1000, |losses| losses.parse().expect("LOSSES"));
    let recorder = std::env::var_os("RECORDER").map(|_| {
        let recorder = PrometheusBuilder::new().set_buckets(&[0.001, 0.01, 0.1, 1.0]).expect("buckets");
        recorder.install_recorder().expect("the first recorder")
    });
    let namespace = format!("losing-{}", std::process::id());
    let server = LosingServer::on(RedisStore::open(&url, Some(&namespace)).expect("a Redis URL")).await;
    for _ in 0..losses {
        server.lose().await;
    }
    if let (Some(recorder), Some(_)) = (recorder, std::env::var_os("SHOW")) {
        let (page, series) = (recorder.render(), "jobs_ticks_total{job_name=\"losing\",result=\"taken\"} ");
        println!("{}", page.lines().find_map(|line| line.strip_prefix(series)).unwrap_or("0"));
    }
}
