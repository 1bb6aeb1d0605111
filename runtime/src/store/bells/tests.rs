use super::*;

#[test]
fn bells_that_nobody_hears_are_taken_down() {
    let bells = Bells::default();
    let kept: Vec<_> = (0..10).map(|key| bells.hang(format!("kept/{key}")).expect("a line").0).collect();
    let mut unheard = 0;
    for key in 0..10_000 {
        unheard += bells.hang(format!("dropped/{}", key % 5_000)).expect("a line").1.len();
    }
    assert!(unheard > 9_000, "{unheard} names");
    let hanging = bells.hanging();
    let hanging = &hanging.as_ref().expect("a line").bells;
    assert!(hanging.len() <= 64, "{} bells", hanging.len());
    assert_eq!(hanging.keys().filter(|key| key.starts_with("kept/")).count(), kept.len());
}

#[tokio::test]
async fn whoever_listens_is_told_of_the_end_of_the_line() {
    let bells = Arc::<Bells>::default();
    let line = Hung(Arc::clone(&bells));
    let mut listener = bells.hang("key".to_owned()).expect("a line").0;
    line.ring("key");
    line.ring("another");
    assert!(listener.freed().await);
    drop(line);
    assert!(!listener.freed().await);
    assert!(bells.hang("key".to_owned()).is_none());
}
