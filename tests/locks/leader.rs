//! The election of a leader.

use std::sync::{Arc, Mutex};

use jobs::locks::{Candidate, LeaderStatus, LockError};
use jobs::testing::Fleet;
use tokio::time::Instant;

use super::kit::{fleet, millis, secs, servers};

fn campaign(fleet: &Fleet, server: usize) -> Candidate {
    fleet.server(server).leader("cron").ttl("10s").campaign().unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_others_know_who() {
    let fleet = fleet(3).await;
    let first = campaign(&fleet, 0);
    let term = first.elected().await.unwrap();
    let others = [campaign(&fleet, 1), campaign(&fleet, 2)];
    fleet.run_for(secs(60)).await;
    assert!(first.is_leader() && !term.is_lost());
    assert!(
        matches!(&*first.watch().borrow(), LeaderStatus::Leading(known) if known.fence() == term.fence())
    );
    for other in &others {
        assert!(!other.is_leader());
        let LeaderStatus::Following(leader) = other.watch().borrow().clone() else { panic!("who leads?") };
        assert_eq!(leader.server.as_deref(), Some("server-0"));
        other.lost().await; // it does not lead
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_resigns_hands_over_at_once() {
    let fleet = fleet(2).await;
    let (old, new) = (campaign(&fleet, 0), campaign(&fleet, 1));
    let term = old.elected().await.unwrap();
    fleet.run_for(secs(30)).await;
    let begun = Instant::now();
    old.resign().await.unwrap();
    assert!(term.is_lost());
    let next = new.elected().await.unwrap();
    assert!(begun.elapsed() < millis(200), "{:?}", begun.elapsed());
    assert!(next.fence() > term.fence());
}

#[tokio::test(start_paused = true)]
async fn a_term_that_is_resigned_lets_the_others_come_first() {
    let fleet = fleet(2).await;
    let old = campaign(&fleet, 0);
    let term = old.elected().await.unwrap();
    let new = campaign(&fleet, 1);
    fleet.run_for(secs(1)).await;
    term.clone().resign().await.unwrap();
    assert!(!old.is_leader());
    tokio::time::timeout(millis(200), new.elected()).await.expect("at once").unwrap();
    new.resign().await.unwrap();
    let again = tokio::time::timeout(secs(5), old.elected()).await.expect("it campaigns on").unwrap();
    assert!(again.fence() > term.fence());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_campaign_steps_down() {
    let fleet = fleet(2).await;
    let (old, new) = (campaign(&fleet, 0), campaign(&fleet, 1));
    let term = old.elected().await.unwrap();
    drop(old);
    fleet.run_for(millis(10)).await;
    assert!(term.is_lost(), "told first");
    assert!(!new.is_leader(), "its work may still go on");
    drop(term);
    tokio::time::timeout(millis(200), new.elected()).await.expect("at once").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_shuts_down_hands_over_at_once() {
    let mut fleet = servers(2).shutdown_grace(secs(25)).start().await.unwrap();
    let old = campaign(&fleet, 0);
    old.elected().await.unwrap();
    let new = campaign(&fleet, 1);
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
async fn a_crashed_leader_is_replaced_within_its_ttl() {
    let fleet = fleet(2).await;
    let old = campaign(&fleet, 0);
    let term = old.elected().await.unwrap();
    let new = campaign(&fleet, 1);
    fleet.run_for(secs(25)).await;
    fleet.server(0).crash();
    let begun = Instant::now();
    let next = new.elected().await.unwrap();
    assert!(begun.elapsed() <= millis(10_500), "{:?}", begun.elapsed());
    assert!(term.is_lost() && next.fence() > term.fence());
}

/// Work under a term: where, its fence, when it began and when it was gone.
#[derive(Clone, Copy, Debug)]
struct Office {
    server: usize,
    fence: i64,
    began: Instant,
    ended: Option<Instant>,
}

#[derive(Clone, Default)]
struct Offices(Arc<Mutex<Vec<Office>>>);

struct Leave(Offices, usize);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.0.lock().unwrap()[self.1].ended = Some(Instant::now());
    }
}

impl Offices {
    fn enter(&self, server: usize, fence: i64) -> Leave {
        let mut offices = self.0.lock().unwrap();
        offices.push(Office { server, fence, began: Instant::now(), ended: None });
        Leave(self.clone(), offices.len() - 1)
    }

    /// How many there were, if no two of them were there at once.
    fn count_if_apart(&self) -> Result<usize, String> {
        let mut terms = self.0.lock().unwrap().clone();
        terms.sort_by_key(|office| office.fence);
        for pair in terms.windows(2) {
            if pair[0].ended.is_none_or(|ended| ended > pair[1].began) {
                return Err(format!("two at once: {pair:?}"));
            }
        }
        Ok(terms.len())
    }
}

/// The control: leaders who believe what they heard last.
#[tokio::test(start_paused = true)]
async fn two_leaders_at_once_would_be_noticed() {
    let offices = Offices::default();
    let first = offices.enter(0, 1);
    tokio::time::sleep(millis(1)).await;
    let second = offices.enter(1, 2);
    tokio::time::sleep(millis(1)).await;
    drop((first, second));
    assert!(offices.count_if_apart().is_err());
}

#[tokio::test(start_paused = true)]
async fn two_terms_never_overlap_while_leaders_are_cut_off_again_and_again() {
    let fleet = fleet(3).await;
    let offices = Offices::default();
    for number in 0..3 {
        let (leader, offices) = (fleet.server(number).leader("cron").ttl("10s"), offices.clone());
        tokio::spawn(leader.lead(move |term| {
            let offices = offices.clone();
            async move {
                let _office = offices.enter(number, term.fence());
                std::future::pending::<()>().await;
            }
        }));
    }
    for round in 0..30 {
        fleet.run_for(secs(5)).await;
        let leading = offices.0.lock().unwrap().last().map(|office| office.server);
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
    let terms = offices.count_if_apart().unwrap();
    assert!(terms >= 25, "leaders changed: {terms}");
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_by_itself_resigns_and_returns() {
    let fleet = fleet(2).await;
    let value = fleet.server(0).leader("cron").lead(|term| async move { term.fence() }).await.unwrap();
    let other = fleet.server(1).leader("cron").campaign().unwrap();
    let next = tokio::time::timeout(millis(200), other.elected()).await.expect("at once").unwrap();
    assert!(next.fence() > value);
}

#[tokio::test(start_paused = true)]
async fn work_under_a_lost_term_is_dropped_and_begins_anew_with_the_next() {
    let fleet = fleet(1).await;
    let fences = Arc::new(Mutex::new(Vec::new()));
    let noted = fences.clone();
    let leading = tokio::spawn(fleet.server(0).leader("cron").ttl("10s").lead(move |term| {
        noted.lock().unwrap().push(term.fence());
        async move {
            jobs::assert_locked();
            term.lost().await;
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
