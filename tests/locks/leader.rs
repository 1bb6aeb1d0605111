//! The election of a leader.

use std::sync::{Arc, Mutex};

use jobs::testing::Fleet;
use jobs::{Campaign, LockError, Standing};
use tokio::time::Instant;

use super::kit::{fleet, millis, secs, servers};

fn campaign(fleet: &Fleet, server: usize) -> Campaign {
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
    assert!(matches!(&*first.watch().borrow(), Standing::Leads(known) if known.fence() == term.fence()));
    for other in &others {
        assert!(!other.is_leader());
        let Standing::Follows(leader) = other.watch().borrow().clone() else { panic!("who leads?") };
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
    assert!(matches!(old.elected().await, Err(LockError::Ended { .. })));
    assert!(matches!(&*old.watch().borrow(), Standing::Over));
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

/// When work under terms began and ended, and where.
#[derive(Clone, Default)]
struct Offices(Arc<Mutex<Vec<(usize, i64, Instant, Option<Instant>)>>>);

impl Offices {
    fn enter(&self, server: usize, fence: i64) -> impl Drop + use<> {
        struct Leave(Offices, usize);
        impl Drop for Leave {
            fn drop(&mut self) {
                self.0.0.lock().unwrap()[self.1].3 = Some(Instant::now());
            }
        }
        let mut offices = self.0.lock().unwrap();
        offices.push((server, fence, Instant::now(), None));
        Leave(self.clone(), offices.len() - 1)
    }

    fn assert_apart(&self) -> usize {
        let mut terms = self.0.lock().unwrap().clone();
        terms.sort_by_key(|(_, fence, ..)| *fence);
        for pair in terms.windows(2) {
            let ended = pair[0].3.expect("ended before its successor began");
            assert!(ended <= pair[1].2, "two at once: {pair:?}");
        }
        terms.len()
    }
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
        let leading = offices.0.lock().unwrap().last().map(|(server, ..)| *server);
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
    let terms = offices.assert_apart();
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
    let fences = fences.lock().unwrap();
    assert!(fences.len() == 2 && fences[1] > fences[0], "{fences:?}");
    let () = if leading.is_finished() {
        leading.await.unwrap().unwrap()
    };
}
