//! Listing what is held, and breaking it.

use jobs::events::EventKind;
use jobs::fleet::LeaseKind;

use super::kit::{fleet, secs};

#[tokio::test(start_paused = true)]
async fn locks_lists_everything_that_is_held() {
    let fleet = fleet(2).await;
    let lock = fleet.server(0).lock("lock").acquire().await.unwrap();
    let _slot = fleet.server(0).semaphore("slots", 3).acquire().await.unwrap();
    let campaign = fleet.server(1).leader("leader").campaign().unwrap();
    campaign.elected().await.unwrap();
    let once = fleet.server(1).once("once").run(async |_| {
        let mut listed = fleet.server(0).locks().await.unwrap();
        listed.sort_by(|one, other| one.key.cmp(&other.key));
        Ok::<_, String>(listed)
    });
    let jobs::locks::OnceOutcome::Ran(listed) = once.await.unwrap() else { panic!("it runs") };
    let kinds: Vec<_> = listed.iter().map(|held| (held.key.as_str(), held.kind)).collect();
    assert_eq!(
        kinds,
        [
            ("leader", Some(LeaseKind::Leader)),
            ("lock", Some(LeaseKind::Lock)),
            ("once", Some(LeaseKind::Once)),
            ("slots", Some(LeaseKind::Slot { of: 3 }))
        ]
    );
    assert_eq!(listed[1].fence, Some(lock.fence()));
}

#[tokio::test(start_paused = true)]
async fn broken_lock_is_free_and_lost_at_the_next_keep_alive_of_its_holder() {
    let fleet = fleet(2).await;
    let mut events = fleet.server(1).events();
    let guard = fleet.server(0).lock("k").ttl("30s").acquire().await.unwrap();
    let waiting = tokio::spawn(fleet.server(1).lock("k").acquire());
    fleet.run_for(secs(1)).await;
    let held = fleet.server(1).break_lock("k").await.unwrap();
    assert_eq!((held.len(), held[0].fence), (1, Some(guard.fence())));
    let next = tokio::time::timeout(secs(1), waiting).await.expect("free at once").unwrap().unwrap();
    tokio::time::timeout(secs(11), guard.lost()).await.expect("a third of the ttl");
    assert!(next.fence() > guard.fence());
    assert_eq!(fleet.history("k").await.runs, [], "a manual lock leaves no record of a run");
    let event = events.next().await.unwrap();
    assert_eq!((event.key.as_str(), event.kind), ("k", EventKind::LockBroken { held }));
    drop(next);
    fleet.run_for(secs(1)).await;
    assert_eq!(fleet.server(0).break_lock("k").await.unwrap(), [], "nothing is held");
}

#[tokio::test(start_paused = true)]
async fn break_lock_releases_all_slots_of_a_key() {
    let fleet = fleet(2).await;
    let slots = |server: usize| fleet.server(server).semaphore("api", 2).ttl("9s");
    let (one, two) = (slots(0).acquire().await.unwrap(), slots(1).acquire().await.unwrap());
    assert_eq!(fleet.server(0).break_lock("api").await.unwrap().len(), 2);
    tokio::time::timeout(secs(4), async { tokio::join!(one.lost(), two.lost()) })
        .await
        .expect("both are told");
    assert_eq!(slots(0).holders().await.unwrap(), []);
}
