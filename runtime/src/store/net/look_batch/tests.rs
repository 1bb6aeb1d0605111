use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::*;

/// A batcher, and the sizes of the requests that it has sent. An answer is the key, and the number of its request.
struct Subject {
    batcher: LookBatcher<(String, usize)>,
    sizes: Arc<Mutex<Vec<usize>>>,
}

impl Subject {
    fn new() -> Arc<Self> {
        Arc::new(Self { batcher: LookBatcher::new(), sizes: Arc::default() })
    }

    async fn look(&self, key: &str) -> (String, usize) {
        let sizes = self.sizes.clone();
        let send = |keys: Vec<String>| async move {
            let number = {
                let mut sizes = lock(&sizes);
                sizes.push(keys.len());
                sizes.len()
            };
            tokio::task::yield_now().await;
            keys.into_iter().map(|key| (key, number)).collect()
        };
        self.batcher.look(key, send).await
    }

    async fn look_at_once(self: &Arc<Self>, count: usize) {
        let mut looks = JoinSet::new();
        for number in 0..count {
            let subject = self.clone();
            looks.spawn(async move {
                let key = format!("key-{number}");
                assert_eq!(subject.look(&key).await.0, key);
            });
        }
        while let Some(looked) = looks.join_next().await {
            looked.unwrap();
        }
    }
}

#[tokio::test]
async fn looks_at_the_same_time_share_a_request_and_each_gets_its_own_answer() {
    let subject = Subject::new();
    subject.look_at_once(MOST_KEYS).await;
    assert_eq!(*lock(&subject.sizes), [MOST_KEYS]);
}

#[tokio::test]
async fn looks_one_after_the_other_are_requests_of_their_own() {
    let subject = Subject::new();
    for number in 1..=3 {
        assert_eq!(subject.look("key").await.1, number);
    }
}

#[tokio::test]
async fn request_has_a_limited_number_of_keys() {
    let subject = Subject::new();
    subject.look_at_once(2 * MOST_KEYS + 1).await;
    assert_eq!(*lock(&subject.sizes), [MOST_KEYS, MOST_KEYS, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn looks_from_several_threads_get_their_own_answers() {
    for _ in 0..20 {
        Subject::new().look_at_once(200).await;
    }
}

#[tokio::test]
async fn callers_on_different_runtimes_share_no_request() {
    let subject = Subject::new();
    let mut here = std::pin::pin!(subject.look("here"));
    // It has joined a batch that is not sent yet.
    assert!(futures_util::poll!(here.as_mut()).is_pending());
    let there = subject.clone();
    let other_thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(there.look("there"))
    });
    assert_eq!(other_thread.join().unwrap(), ("there".to_owned(), 1));
    assert_eq!(here.await, ("here".to_owned(), 2));
}

#[tokio::test]
async fn look_that_begins_while_a_request_is_in_progress_is_not_answered_by_it() {
    let batcher = Arc::new(LookBatcher::new());
    let (sent, is_sent) = oneshot::channel();
    let (answer, answered) = oneshot::channel();
    let first = batcher.clone();
    let first = tokio::spawn(async move {
        let send = |_| async move {
            sent.send(()).unwrap();
            vec![answered.await.unwrap()]
        };
        first.look("key", send).await
    });
    is_sent.await.unwrap();
    assert_eq!(batcher.look("key", |_| async { vec!["newer"] }).await, "newer");
    answer.send("older").unwrap();
    assert_eq!(first.await.unwrap(), "older");
}

#[tokio::test]
async fn caller_that_stops_waiting_takes_the_request_from_no_other() {
    let subject = Subject::new();
    let [first, second] = ["first", "second"].map(|key| {
        let subject = subject.clone();
        tokio::spawn(async move { subject.look(key).await })
    });
    // Both have joined the batch, and none has been polled again.
    yield_to_ready_tasks().await;
    first.abort();
    assert_eq!(second.await.unwrap(), ("second".to_owned(), 1));
}

/// A connection learns from the drop of its last caller that it is silent.
#[tokio::test]
async fn request_is_dropped_with_its_last_caller() {
    struct CountDrop(Arc<AtomicUsize>);
    impl Drop for CountDrop {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    let (batcher, dropped) = (Arc::new(LookBatcher::<u32>::new()), Arc::default());
    let never = |dropped: &Arc<AtomicUsize>| {
        let guard = CountDrop(dropped.clone());
        |_| async move {
            let _guard = guard;
            std::future::pending().await
        }
    };
    let callers = ["first", "second"].map(|key| {
        let (batcher, send) = (batcher.clone(), never(&dropped));
        tokio::spawn(async move { batcher.look(key, send).await })
    });
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    let [first, second] = callers;
    // The second one's own request was not needed.
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    first.abort();
    drop(first.await);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    second.abort();
    drop(second.await);
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
    assert_eq!(batcher.look("key", |_| async { vec![7] }).await, 7);
}
