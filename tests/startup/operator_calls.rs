//! The errors of operator calls: they name the store only if it is at fault.

use jobs::{Job, OperateError};
use support::redis_server::RedisServer;

#[tokio::test]
async fn operator_call_after_the_shutdown_does_not_blame_the_store() {
    let job = Job::builder("a").every("1h").run(async |_| ()).build().unwrap();
    let builder = jobs::builder().without_annotated().url("memory://operator-calls").job(job);
    let jobs = builder.start_all().await.unwrap();
    jobs.shutdown().await;
    let refused = [
        jobs.history("a").await.map(drop),
        jobs.servers().await.map(drop),
        jobs.pause("a").await.map(drop),
        jobs.pause_all().await.map(drop),
        jobs.resume("a").await.map(drop),
        jobs.resume_all().await.map(drop),
        jobs.audit().await.map(drop),
        jobs.run_now("a").await.map(drop),
        jobs.cancel("a").await.map(drop),
        jobs.reset("a").await,
        jobs.forget("a").await.map(drop),
        jobs.locks().await.map(drop),
        jobs.break_lock("a").await.map(drop),
        jobs.diagnose().await.map(drop),
    ];
    for refused in refused {
        let error = refused.expect_err("it has ended");
        assert!(matches!(error, OperateError::ShuttingDown), "{error:?}");
        assert!(!error.to_string().contains("store"), "{error}");
    }
}

#[test]
fn operator_call_names_the_store_that_is_unreachable() {
    let mut redis = RedisServer::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let jobs = runtime.block_on(jobs::connect(redis.url())).expect("the store is there");
    redis.kill();
    let error = runtime.block_on(jobs.servers()).expect_err("it is gone");
    assert!(matches!(&error, OperateError::Store(_)), "{error:?}");
    assert!(error.to_string().contains(&redis.url()), "{error}");
    runtime.block_on(jobs.shutdown());
}
