//! The pause of all jobs, and servers that start meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jobs::Job;
use jobs::testing::Fleet;

use crate::common::{HOUR, Notes, job, secs};

/// A fleet of one server, and of a job that only servers have which start later.
struct Deploy {
    fleet: Fleet,
    is_deployed: Arc<AtomicBool>,
    new: Notes,
}

impl Deploy {
    async fn prepare() -> Self {
        let (is_deployed, new) = (Arc::new(AtomicBool::new(false)), Notes::new());
        let (deployed, old) = (is_deployed.clone(), Notes::new().lasting(job("1h", 30), 1));
        let new_job = new.lasting(Job::builder("new").every("1m").ttl(secs(30)), 1);
        let jobs = move || if deployed.load(Ordering::SeqCst) { new_job() } else { old() };
        let fleet = Fleet::of(1).job(jobs).start().await.unwrap();
        fleet.run_for(secs(HOUR + 60)).await;
        fleet.server(0).pause_all().reason("the database moves").await.unwrap();
        Self { fleet, is_deployed, new }
    }

    async fn start_server(&mut self) {
        self.is_deployed.store(true, Ordering::SeqCst);
        self.fleet.add_server().await.unwrap();
    }

    async fn is_paused(&self) -> bool {
        self.fleet.history("new").await.pause.is_some()
    }
}

#[tokio::test(start_paused = true)]
async fn new_job_is_not_left_paused_when_all_are_resumed_while_its_server_starts() {
    for millis in (0..1500).step_by(50) {
        let mut deploy = Deploy::prepare().await;
        deploy.start_server().await;
        deploy.fleet.server(1).set_latency(Duration::from_millis(100));
        deploy.fleet.run_for(Duration::from_millis(millis)).await;
        deploy.fleet.server(0).resume_all().await.unwrap();
        deploy.fleet.run_for(secs(600)).await;
        assert!(!deploy.is_paused().await, "resumed {millis} ms after its start");
        assert!(deploy.new.ticks().len() >= 9, "{millis} ms: {:?}", deploy.new.ticks());
    }
}

#[tokio::test(start_paused = true)]
async fn new_job_is_paused_although_its_server_starts_without_the_store() {
    let mut deploy = Deploy::prepare().await;
    deploy.start_server().await;
    deploy.fleet.server(1).cut_off(true);
    deploy.fleet.run_for(secs(40)).await;
    deploy.fleet.server(1).cut_off(false);
    deploy.fleet.run_for(secs(600)).await;
    assert!(deploy.is_paused().await);
    assert_eq!(deploy.new.ticks(), [0_u64; 0]);
}

#[tokio::test(start_paused = true)]
async fn new_job_is_paused_although_a_manual_run_is_requested_while_its_server_starts() {
    for millis in (0..600).step_by(50) {
        let mut deploy = Deploy::prepare().await;
        deploy.start_server().await;
        deploy.fleet.server(1).set_latency(Duration::from_millis(100));
        deploy.fleet.run_for(Duration::from_millis(millis)).await;
        let by = deploy.fleet.server(0).by("anna");
        let asked = tokio::spawn(async move { by.run_now("new").await.map(drop).is_ok() });
        deploy.fleet.run_for(secs(600)).await;
        let _may_be_unknown_yet = asked.await.unwrap();
        assert!(deploy.is_paused().await, "requested {millis} ms after its start");
        assert!(deploy.new.starts().len() <= 1, "only the manual run: {:?}", deploy.new.starts());
    }
}
