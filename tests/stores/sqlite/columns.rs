//! What a person reads in the tables.

use std::time::Duration;

use jobs::Timestamp;
use jobs::testing::store::Client;
use support::server::{SUCCEEDED, claim_of};

use super::{KEY, TestDatabase};
use jobs::store::ClaimDecision;

#[tokio::test]
async fn holder_and_runs_can_be_read_with_sql() {
    let database = TestDatabase::new();
    let client = Client::new(database.open());
    let claim = claim_of(Timestamp::now(), Duration::from_secs(60));
    let won = match client.claim(KEY, &claim).await.expect("an answer").reply.decision {
        ClaimDecision::Won(won) => won,
        other => panic!("{other:?}"),
    };
    let program = database.other_program();
    let holder = "SELECT server || ' ' || since || ' ' || until FROM job_lock
        WHERE job_name = 'import' AND datetime(until) > datetime('now')";
    let holder: String = program.query_row(holder, [], |row| row.get(0)).expect("a holder");
    assert_eq!(holder, format!("{} {} {}", claim.server, won.lease.since, won.lease.until));
    client.release(KEY, &won.lease, &SUCCEEDED).await.expect("an answer");
    let run = "SELECT r.kind || ' ' || r.outcome || ' ' || r.tick FROM job_record r JOIN job_lock l USING (job_name)
        WHERE l.server IS NULL AND l.until IS NULL";
    let run: String = program.query_row(run, [], |row| row.get(0)).expect("a run");
    assert!(run.starts_with("run succeeded 20"), "{run}");
}
