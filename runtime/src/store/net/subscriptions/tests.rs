use super::*;

#[test]
fn names_without_a_subscriber_are_removed() {
    let subscriptions = Subscriptions::default();
    let kept: Vec<_> = (0..10).map(|key| subscriptions.subscribe(format!("kept/{key}")).0).collect();
    let mut unheard = 0;
    for key in 0..10_000 {
        unheard += subscriptions.subscribe(format!("dropped/{}", key % 5_000)).1.len();
    }
    assert!(unheard > 9_000, "{unheard} names");
    let notifiers = &lock(&subscriptions.0).notifiers;
    assert!(notifiers.len() <= 64, "{} subscriptions", notifiers.len());
    assert_eq!(notifiers.keys().filter(|key| key.starts_with("kept/")).count(), kept.len());
}

#[tokio::test]
async fn every_subscriber_of_a_name_is_notified_of_it_and_of_a_broken_connection() {
    let subscriptions = Subscriptions::default();
    let mut listeners =
        [subscriptions.subscribe("key".to_owned()).0, subscriptions.subscribe("key".to_owned()).0];
    let mut other = subscriptions.subscribe("other".to_owned()).0;
    subscriptions.notify("key");
    subscriptions.notify("another");
    for listener in &mut listeners {
        assert!(listener.notified().await);
    }
    let mut late = subscriptions.subscribe("key".to_owned()).0;
    drop(subscriptions);
    for listener in listeners.iter_mut().chain([&mut other, &mut late]) {
        assert!(!listener.notified().await);
    }
}
