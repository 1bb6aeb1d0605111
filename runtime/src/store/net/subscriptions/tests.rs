use super::*;

#[test]
fn bells_that_nobody_hears_are_taken_down() {
    let bells = Bells::default();
    let kept: Vec<_> = (0..10).map(|key| bells.hang(format!("kept/{key}")).0).collect();
    let mut unheard = 0;
    for key in 0..10_000 {
        unheard += bells.hang(format!("dropped/{}", key % 5_000)).1.len();
    }
    assert!(unheard > 9_000, "{unheard} names");
    let hanging = &lock(&bells.0).bells;
    assert!(hanging.len() <= 64, "{} bells", hanging.len());
    assert_eq!(hanging.keys().filter(|key| key.starts_with("kept/")).count(), kept.len());
}

#[tokio::test]
async fn every_listener_of_a_name_is_told_of_it_and_of_the_end_of_the_line() {
    let bells = Bells::default();
    let mut listeners = [bells.hang("key".to_owned()).0, bells.hang("key".to_owned()).0];
    let mut other = bells.hang("other".to_owned()).0;
    bells.ring("key");
    bells.ring("another");
    for listener in &mut listeners {
        assert!(listener.freed().await);
    }
    let mut late = bells.hang("key".to_owned()).0;
    drop(bells);
    for listener in listeners.iter_mut().chain([&mut other, &mut late]) {
        assert!(!listener.freed().await);
    }
}
