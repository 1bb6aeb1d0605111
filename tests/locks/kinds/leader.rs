//! Leader election.

use std::sync::{Arc, Mutex};

use jobs::locks::{Candidate, LeaderStatus, LockError};
use jobs::testing::Fleet;
use tokio::time::Instant;

use crate::kit::{fleet, millis, secs, servers};

fn candidate(fleet: &Fleet, server: usize) -> Candidate {
    fleet.server(server).leader("cron").ttl("10s").campaign().unwrap()
}

#[tokio::test(start_paused = true)]
async fn followers_know_the_leader() {
    let fleet = fleet(3).await;
    let first = candidate(&fleet, 0);
    let leadership = first.elected().await.unwrap();
    let others = [candidate(&fleet, 1), candidate(&fleet, 2)];
    fleet.run_for(secs(60)).await;
    assert!(first.is_leader() && !leadership.is_lost());
    assert!(
        matches!(&*first.watch().borrow(), LeaderStatus::Leading(known) if known.fence() == leadership.fence())
    );
    for other in &others {
        assert!(!other.is_leader());
        let LeaderStatus::Following(leader) = other.watch().borrow().clone() else {
            panic!("the leader is unknown")
        };
        assert_eq!(leader.server.as_deref(), Some("server-0"));
        other.lost().await; // it does not lead
    }
}

#[tokio::test(start_paused = true)]
async fn candidate_that_resigns_hands_over_at_once() {
    let fleet = fleet(2).await;
    let (old, new) = (candidate(&fleet, 0), candidate(&fleet, 1));
    let leadership = old.elected().await.unwrap();
    fleet.run_for(secs(30)).await;
    let begun = Instant::now();
    old.resign().await.unwrap();
    assert!(leadership.is_lost());
    let next = new.elected().await.unwrap();
    assert!(begun.elapsed() < millis(200), "{:?}", begun.elapsed());
    assert!(next.fence() > leadership.fence());
}

#[tokio::test(start_paused = true)]
async fn leader_that_resigns_lets_other_candidates_go_first() {
    let fleet = fleet(2).await;
    let old = candidate(&fleet, 0);
    let leadership = old.elected().await.unwrap();
    let new = candidate(&fleet, 1);
    fleet.run_for(secs(1)).await;
    leadership.clone().resign().await.unwrap();
    assert!(!old.is_leader());
    tokio::time::timeout(millis(200), new.elected()).await.expect("at once").unwrap();
    new.resign().await.unwrap();
    let again = tokio::time::timeout(secs(5), old.elected()).await.expect("it is still a candidate").unwrap();
    assert!(again.fence() > leadership.fence());
}

#[tokio::test(start_paused = true)]
async fn dropped_candidate_loses_its_leadership_but_releases_it_only_with_the_last_clone() {
    let fleet = fleet(2).await;
    let (old, new) = (candidate(&fleet, 0), candidate(&fleet, 1));
    let leadership = old.elected().await.unwrap();
    drop(old);
    fleet.run_for(millis(10)).await;
    assert!(leadership.is_lost(), "reported first");
    assert!(!new.is_leader(), "its work may still run");
    drop(leadership);
    tokio::time::timeout(millis(200), new.elected()).await.expect("at once").unwrap();
}

#[tokio::test(start_paused = true)]
async fn leader_that_shuts_down_hands_over_at_once() {
    let mut fleet = servers(2).shutdown_grace(secs(25)).start().await.unwrap();
    let old = candidate(&fleet, 0);
    old.elected().await.unwrap();
    let new = candidate(&fleet, 1);
    fleet.run_for(secs(1)).await;
    let begun = Instant::now();
    let (elected, ()) = tokio::join!(new.elected(), async {
        fleet.shut_down(0).await;
    });
    elected.unwrap();
    assert!(begun.elapsed() < secs(1), "{:?}", begun.elapsed());
    assert!(matches!(old.elected().await, Err(LockError::ShutDown { .. })));
    assert!(matches!(&*old.watch().borrow(), LeaderStatus::Ended));
}

#[tokio::test(start_paused = true)]
async fn crashed_leader_is_replaced_within_its_ttl() {
    let fleet = fleet(2).await;
    let old = candidate(&fleet, 0);
    let leadership = old.elected().await.unwrap();
    let new = candidate(&fleet, 1);
    fleet.run_for(secs(25)).await;
    fleet.server(0).crash();
    let begun = Instant::now();
    let next = new.elected().await.unwrap();
    assert!(begun.elapsed() <= millis(10_500), "{:?}", begun.elapsed());
    assert!(leadership.is_lost() && next.fence() > leadership.fence());
}

/// The work of one leader: its server, its fence, when it began and when it was dropped.
#[derive(Clone, Copy, Debug)]
struct LeaderWork {
    server: usize,
    fence: i64,
    began: Instant,
    ended: Option<Instant>,
}

#[derive(Clone, Default)]
struct WorkLog(Arc<Mutex<Vec<LeaderWork>>>);

struct EndOnDrop(WorkLog, usize);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.0.lock().unwrap()[self.1].ended = Some(Instant::now());
    }
}

impl WorkLog {
    fn enter(&self, server: usize, fence: i64) -> EndOnDrop {
        let mut log = self.0.lock().unwrap();
        log.push(LeaderWork { server, fence, began: Instant::now(), ended: None });
        EndOnDrop(self.clone(), log.len() - 1)
    }

    /// Returns their number, or an error if two of them overlap.
    fn count_if_apart(&self) -> Result<usize, String> {
        let mut works = self.0.lock().unwrap().clone();
        works.sort_by_key(|work| work.fence);
        for pair in works.windows(2) {
            if pair[0].ended.is_none_or(|ended| ended > pair[1].began) {
                return Err(format!("two at once: {pair:?}"));
            }
        }
        Ok(works.len())
    }
}

/// The control: leaders that rely on an old reply.
#[tokio::test(start_paused = true)]
async fn two_leaders_at_the_same_time_are_detected() {
    let log = WorkLog::default();
    let first = log.enter(0, 1);
    tokio::time::sleep(millis(1)).await;
    let second = log.enter(1, 2);
    tokio::time::sleep(millis(1)).await;
    drop((first, second));
    assert!(log.count_if_apart().is_err());
}

#[tokio::test(start_paused = true)]
async fn leaders_never_overlap_while_they_are_cut_off_repeatedly() {
    let fleet = fleet(3).await;
    let log = WorkLog::default();
    for number in 0..3 {
        let (leader, log) = (fleet.server(number).leader("cron").ttl("10s"), log.clone());
        tokio::spawn(leader.lead(move |leadership| {
            let log = log.clone();
            async move {
                let _work = log.enter(number, leadership.fence());
                std::future::pending::<()>().await;
            }
        }));
    }
    for round in 0..30 {
        fleet.run_for(secs(5)).await;
        let leading = log.0.lock().unwrap().last().map(|work| work.server);
        let server = leading.unwrap_or(0);
        match round % 3 {
            0 => fleet.server(server).cut_off(true),
            1 => fleet.server(server).lose_replies(true),
            _ => fleet.server(server).set_latency(secs(3)),
        }
        fleet.run_for(secs(25)).await;
        fleet.server(server).cut_off(false);
        fleet.server(server).lose_replies(false);
        fleet.server(server).set_latency(secs(0));
    }
    let leaders = log.count_if_apart().unwrap();
    assert!(leaders >= 25, "only {leaders} leaders");
}

#[tokio::test(start_paused = true)]
async fn leader_resigns_when_its_work_returns() {
    let fleet = fleet(2).await;
    let value =
        fleet.server(0).leader("cron").lead(|leadership| async move { leadership.fence() }).await.unwrap();
    let other = fleet.server(1).leader("cron").campaign().unwrap();
    let next = tokio::time::timeout(millis(200), other.elected()).await.expect("at once").unwrap();
    assert!(next.fence() > value);
}

#[tokio::test(start_paused = true)]
async fn work_of_a_lost_leadership_is_dropped_and_called_again_after_the_next_election() {
    let fleet = fleet(1).await;
    let fences = Arc::new(Mutex::new(Vec::new()));
    let noted = fences.clone();
    let leading = tokio::spawn(fleet.server(0).leader("cron").ttl("10s").lead(move |leadership| {
        noted.lock().unwrap().push(leadership.fence());
        async move {
            jobs::assert_locked();
            leadership.lost().await;
            unreachable!("dropped before it can go on");
        }
    }));
    fleet.run_for(secs(5)).await;
    fleet.server(0).cut_off(true);
    fleet.run_for(secs(15)).await;
    fleet.server(0).cut_off(false);
    fleet.run_for(secs(15)).await;
    assert!(!leading.is_finished());
    let fences = fences.lock().unwrap();
    assert!(fences.len() == 2 && fences[1] > fences[0], "{fences:?}");
}
