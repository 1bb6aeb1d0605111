//! The connection of a test server to the store of its fleet.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::Timestamp;
use crate::diagnosis::Finding;
use crate::store::{
    FenceTable, JobRecords, Look, Note, Notes, Page, Store, StoreError, StoreErrorKind, StoreFuture,
    Subscription, Swap, SwapReply, Topic,
};
use crate::util::lock;
use crate::util::random::seeded::SeededRandom;

/// One server's connection to the store of its fleet.
pub(super) struct NetworkedStore {
    store: Arc<dyn Store>,
    conditions: Mutex<Conditions>,
    random: Mutex<SeededRandom>,
    /// Kills the server.
    kill: Mutex<Vec<OnKill>>,
}

/// The state of a connection.
#[derive(Clone, Default)]
pub(super) struct Conditions {
    /// Whether requests do not arrive.
    pub(super) cut: bool,
    /// Whether the store does not answer any server.
    pub(super) outage: bool,
    /// Whether the replies to writes are lost.
    pub(super) replies_lost: bool,
    /// Latency of each request.
    pub(super) latency: Duration,
    /// Delays and losses of single messages.
    pub(super) messages: Option<MessageFaults>,
    /// Kills the server at its next swap.
    pub(super) kill_at: Option<KillPoint>,
}

/// Where a server is killed: its request is applied in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KillPoint {
    /// When the next swap is on its way.
    Sent,
    /// When the next swap is applied, and its reply is on its way.
    Applied,
}

/// The faults of the messages of one server: probabilities in percent, and delays.
///
/// A request that was sent arrives even if its server is gone by then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MessageFaults {
    /// Longest usual delay of a request, and of its reply.
    pub(super) delay: Duration,
    /// Requests and replies that take longer.
    pub(super) slow: u64,
    /// Longest delay of these.
    pub(super) longest: Duration,
    /// Requests that are lost.
    pub(super) requests_lost: u64,
    /// Replies that are lost.
    pub(super) replies_lost: u64,
    /// Lost messages that are reported at once, as a broken connection is. The others are never answered.
    pub(super) reported: u64,
    /// Requests of which a copy arrives later.
    pub(super) copied: u64,
    /// Longest delay of the copy.
    pub(super) copies_after: Duration,
    /// Swaps that are applied, and answered by "too few replicas".
    pub(super) not_replicated: u64,
}

/// What happens to one request.
struct Fate {
    arrives_after: Option<Duration>,
    answered_after: Option<Duration>,
    is_reported: bool,
    copy_after: Option<Duration>,
    is_replicated: bool,
    kill_at: Option<KillPoint>,
}

impl MessageFaults {
    fn draw(&self, random: &mut SeededRandom) -> Fate {
        let mut delay = |lost: u64| {
            let is_lost = random.percent(lost);
            let longest = if random.percent(self.slow) { self.longest } else { self.delay };
            let after = Duration::from_millis(random.between(0, millis(longest)));
            (!is_lost).then_some(after)
        };
        let (arrives_after, answered_after) = (delay(self.requests_lost), delay(self.replies_lost));
        let copy = Duration::from_millis(random.between(0, millis(self.copies_after)));
        Fate {
            arrives_after,
            answered_after,
            is_reported: random.percent(self.reported),
            copy_after: random.percent(self.copied).then_some(copy),
            is_replicated: !random.percent(self.not_replicated),
            kill_at: None,
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

type OnKill = Box<dyn FnOnce() + Send>;

impl NetworkedStore {
    /// A connection without faults. The seed decides the fate of single messages, once there are faults.
    pub(super) fn new(store: Arc<dyn Store>, random: SeededRandom) -> Self {
        Self { store, conditions: Mutex::default(), random: Mutex::new(random), kill: Mutex::default() }
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Conditions)) {
        change(&mut lock(&self.conditions));
    }

    /// Adds a function that is called when the server is killed.
    pub(super) fn on_kill(&self, kill: impl FnOnce() + Send + 'static) {
        lock(&self.kill).push(Box::new(kill));
    }

    pub(super) fn kill(&self) {
        let called = std::mem::take(&mut *lock(&self.kill));
        for kill in called {
            kill();
        }
    }

    /// What happens to the next request, if messages have faults.
    fn fate(&self, is_swap: bool) -> Option<Fate> {
        let conditions = &mut *lock(&self.conditions);
        let faults = conditions.messages.as_ref()?;
        let kill_at = if is_swap { conditions.kill_at.take() } else { None };
        let mut fate = faults.draw(&mut lock(&self.random));
        if kill_at.is_some() {
            fate.arrives_after = Some(fate.arrives_after.unwrap_or_default());
        }
        fate.is_replicated |= !is_swap;
        Some(Fate { kill_at, ..fate })
    }

    /// Sends a request, on a good connection without a task of its own.
    fn send<T, F>(
        self: &Arc<Self>,
        request: RequestKind,
        apply: impl Fn(Arc<dyn Store>) -> F + Send + 'static,
    ) -> StoreFuture<'_, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        Box::pin(async move {
            if let Some(fate) = self.fate(request == RequestKind::Swap) {
                return self.send_under_faults(fate, apply).await;
            }
            let latency = lock(&self.conditions).latency;
            if !latency.is_zero() {
                sleep(latency).await;
            }
            if self.is_cut() {
                return Err(broken());
            }
            let answer = apply(self.store.clone()).await;
            let writes = request != RequestKind::Read;
            if writes && lock(&self.conditions).replies_lost { Err(broken()) } else { answer }
        })
    }

    /// Sends a request as a task of the network: it is on its way even if the server ends.
    async fn send_under_faults<T, F>(
        self: &Arc<Self>,
        fate: Fate,
        apply: impl Fn(Arc<dyn Store>) -> F + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let (network, is_reported) = (self.clone(), fate.is_reported);
        tokio::spawn(async move {
            let Some(arrives_after) = fate.arrives_after else {
                return sleep_before_error(is_reported, answer).await;
            };
            wait(arrives_after).await;
            if fate.kill_at == Some(KillPoint::Sent) {
                network.kill();
            }
            if network.is_cut() {
                return sleep_before_error(is_reported, answer).await;
            }
            let reply = apply(network.store.clone()).await;
            if fate.kill_at == Some(KillPoint::Applied) {
                network.kill();
            }
            let reply = if fate.is_replicated { reply } else { Err(not_replicated()) };
            if let Some(copy_after) = fate.copy_after {
                let store = network.store.clone();
                tokio::spawn(async move {
                    wait(copy_after).await;
                    drop(apply(store).await);
                });
            }
            match fate.answered_after {
                Some(after) => {
                    wait(after).await;
                    if network.is_cut() {
                        return sleep_before_error(is_reported, answer).await;
                    }
                    drop(answer.send(reply)); // the server may not wait any more
                }
                None => sleep_before_error(is_reported, answer).await,
            }
        });
        answered.await.unwrap_or_else(|_| Err(broken()))
    }

    fn is_cut(&self) -> bool {
        let conditions = lock(&self.conditions);
        conditions.cut || conditions.outage
    }
}

async fn wait(duration: Duration) {
    if !duration.is_zero() {
        sleep(duration).await;
    }
}

/// Reports a broken connection, or never answers.
async fn sleep_before_error<T>(is_reported: bool, mut answer: oneshot::Sender<Result<T, StoreError>>) {
    if !is_reported {
        answer.closed().await;
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Read,
    Note,
    Swap,
}

/// A [`NetworkedStore`], shared by the server that uses it and the messages on their way.
#[derive(Clone)]
pub(super) struct Link(pub(super) Arc<NetworkedStore>);

impl Link {
    /// Sends a transaction of the application, which the store commits by this function in one step.
    pub(super) fn commit<T: Send + 'static>(
        &self,
        commit: impl Fn() -> T + Send + 'static,
    ) -> StoreFuture<'_, T> {
        self.0.send(RequestKind::Swap, move |_| Box::pin(std::future::ready(Ok(commit()))))
    }
}

impl Store for Link {
    fn location(&self) -> String {
        self.0.store.location()
    }

    fn fence_table(&self) -> Option<FenceTable> {
        self.0.store.fence_table()
    }

    fn look<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Look> {
        let key: Arc<str> = key.into();
        self.0.send(RequestKind::Read, move |store| {
            let key = key.clone();
            async move { store.look(&key).await }
        })
    }

    fn swap<'a>(&'a self, key: &'a str, swap: &'a Swap) -> StoreFuture<'a, SwapReply> {
        let request: Arc<(String, Swap)> = Arc::new((key.to_owned(), swap.clone()));
        self.0.send(RequestKind::Swap, move |store| {
            let request = request.clone();
            async move { store.swap(&request.0, &request.1).await }
        })
    }

    fn list<'a>(&'a self, page: Option<&'a str>) -> StoreFuture<'a, Page> {
        let page = page.map(str::to_owned);
        self.0.send(RequestKind::Read, move |store| {
            let page = page.clone();
            async move { store.list(page.as_deref()).await }
        })
    }

    fn records<'a>(&'a self, keys: &'a [String], newest: usize) -> StoreFuture<'a, Vec<JobRecords>> {
        let keys: Arc<[String]> = keys.into();
        self.0.send(RequestKind::Read, move |store| {
            let keys = keys.clone();
            async move { store.records(&keys, newest).await }
        })
    }

    fn put_note<'a>(&'a self, topic: Topic, note: &'a Note, ttl: Duration) -> StoreFuture<'a, Timestamp> {
        let note = note.clone();
        self.0.send(RequestKind::Note, move |store| {
            let note = note.clone();
            async move { store.put_note(topic, &note, ttl).await }
        })
    }

    fn notes(&self, topic: Topic) -> StoreFuture<'_, Notes> {
        self.0.send(RequestKind::Read, move |store| async move { store.notes(topic).await })
    }

    fn listen<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Subscription>> {
        if self.0.is_cut() {
            return Box::pin(std::future::ready(Err(broken())));
        }
        self.0.store.listen(key)
    }

    fn diagnose<'a>(&'a self, jobs: &'a [String]) -> StoreFuture<'a, Vec<Finding>> {
        self.0.store.diagnose(jobs)
    }
}

fn broken() -> StoreError {
    StoreError::new(StoreErrorKind::Unreachable, "reach", "memory", "the test has cut the connection")
}

fn not_replicated() -> StoreError {
    StoreError::new(StoreErrorKind::NotReplicated, "confirm", "memory", "too few replicas have the write")
}
