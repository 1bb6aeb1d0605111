//! The store as one server sees it: every swap that is applied is compared with the record before it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::controls::broken_store::BrokenStore;
use super::recorder::{Recorder, VariantName};
use crate::Timestamp;
use crate::history::RunOutcome;
use crate::store::memory::MemoryStore;
use crate::store::{
    FenceChange, FenceTable, JobRecord, JobRecords, KeyState, Lease, Look, Note, Notes, Notifier, Page, Skip,
    Store, StoreFuture, Subscription, Swap, SwapReply, Topic,
};
use crate::testing::check::{HELD, LeaseRef, Observed};
use crate::util::lock;
use crate::util::probe::reached;

/// The store, for one server.
pub(super) struct ObservedStore {
    pub(super) store: MemoryStore,
    pub(super) server: Arc<str>,
    pub(super) recorder: Recorder,
    pub(super) broken: BrokenStore,
    pub(super) listeners: Listeners,
}

/// The subscriptions of all servers, in their order: a channel with several receivers would wake them in a random one.
#[derive(Clone, Default)]
pub(super) struct Listeners(Arc<Mutex<Vec<(String, Notifier)>>>);

impl Listeners {
    fn subscribe(&self, key: &str) -> Subscription {
        let (notifier, subscription) = Subscription::new();
        lock(&self.0).push((key.to_owned(), notifier));
        subscription
    }

    fn notify(&self, key: &str) {
        let mut listeners = lock(&self.0);
        listeners.retain(|(_, notifier)| !notifier.is_closed());
        listeners.iter().filter(|(of, _)| of == key).for_each(|(_, notifier)| notifier.notify());
    }
}

impl ObservedStore {
    /// Called with the record before a swap that was applied.
    fn observe(&self, key: &str, before: &Look, swap: &Swap) {
        let key: Arc<str> = key.strip_suffix("#slots").unwrap_or(key).into();
        let none = KeyState::default();
        let after = swap.change.state.as_deref().unwrap_or(&none);
        let now = before.now;
        let held = before.state.claimant.iter().filter(|_| !before.state.released);
        let is_kept = |lease: &Lease| {
            !after.released && after.claimant.as_ref().is_some_and(|after| after.token == lease.token)
        };
        let was_broken = after.broken_by.is_some() && before.state.broken_by.is_none();
        // After lost writes the store may show an older lease, and the holder of a newer one restores it.
        let is_restored = matches!(swap.change.fence, FenceChange::AtLeast(fence) if fence > before.fence);
        for lease in held.filter(|lease| lease.until > now && !is_restored) {
            if was_broken {
                self.recorder.add_general(Observed::Broken(key.clone()));
            } else if !is_kept(lease) && lease.server != self.server {
                self.overwrote(&key, before.fence);
            }
        }
        for slot in before.state.slots.iter().filter(|slot| slot.until > now) {
            let is_kept = after.slots.iter().any(|after| after.token == slot.token);
            if !is_kept && after.slots_since == Timestamp::from_micros(0) {
                self.recorder.add_general(Observed::Broken(key.clone()));
            } else if !is_kept && slot.server != self.server {
                self.overwrote(&key, if slot.fence == 0 { before.fence } else { slot.fence });
            }
        }
        if let (Some(mark), Some(lowered)) = (&before.state.mark, &after.mark)
            && lowered.tick < mark.tick
        {
            self.recorder.add_general(Observed::MarkLowered { key: key.clone(), to: lowered.tick });
        }
        for record in &swap.change.records {
            self.observe_record(&key, record);
        }
    }

    fn overwrote(&self, key: &Arc<str>, fence: i64) {
        self.recorder.add(&self.server, Observed::Overwrote(LeaseRef { key: key.clone(), fence }));
    }

    fn observe_record(&self, key: &Arc<str>, record: &JobRecord) {
        match record {
            JobRecord::Skip(skip) => {
                let why = if skip.reason == Skip::Held { HELD } else { "paused" };
                self.recorder.explain(&self.server, key, skip.tick, why);
                reached(format_args!("skip record: {:?}", skip.reason));
            }
            JobRecord::Run(run) => {
                reached(format_args!("outcome: {:?}", run.outcome));
                self.recorder.end_recorded(&self.server, key, run);
                let why = match run.outcome {
                    // Its lease kept the tick from others, and its function may never have been called.
                    RunOutcome::Crashed | RunOutcome::NotStarted => HELD,
                    RunOutcome::Broken => "broken",
                    _ => return,
                };
                if let Some(tick) = run.tick {
                    self.recorder.explain(&self.server, key, tick, why);
                }
            }
        }
    }
}

impl Store for ObservedStore {
    fn location(&self) -> String {
        self.store.location()
    }

    fn look<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Look> {
        Box::pin(async move { Ok(self.broken.shown(self.store.show(key))) })
    }

    fn swap<'a>(&'a self, key: &'a str, swap: &'a Swap) -> StoreFuture<'a, SwapReply> {
        Box::pin(async move {
            let before = self.store.show(key);
            let swap = &*self.broken.understood(key, &before, swap);
            let reply = self.broken.answered(&before, self.store.apply(key, swap));
            match &reply {
                SwapReply::Swapped(_) => {
                    self.observe(key, &before, swap);
                    if swap.change.notify {
                        self.listeners.notify(key);
                    }
                }
                SwapReply::Changed(_) => reached(format_args!("swap: {}", refusal(&before, swap))),
            }
            Ok(reply)
        })
    }

    fn fence_table(&self) -> Option<FenceTable> {
        Some(FenceTable::Simulated)
    }

    fn list<'a>(&'a self, page: Option<&'a str>) -> StoreFuture<'a, Page> {
        self.store.list(page)
    }

    fn records<'a>(&'a self, keys: &'a [String], newest: usize) -> StoreFuture<'a, Vec<JobRecords>> {
        self.store.records(keys, newest)
    }

    fn put_note<'a>(&'a self, topic: Topic, note: &'a Note, ttl: Duration) -> StoreFuture<'a, Timestamp> {
        self.store.put_note(topic, note, ttl)
    }

    fn notes(&self, topic: Topic) -> StoreFuture<'_, Notes> {
        self.store.notes(topic)
    }

    fn listen<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Subscription>> {
        Box::pin(std::future::ready(Ok(Some(self.listeners.subscribe(key)))))
    }
}

/// Why a swap was refused.
fn refusal(look: &Look, swap: &Swap) -> &'static str {
    let token = look.lock.as_ref().map(|lock| &lock.token);
    if look.version != swap.expected {
        "another version"
    } else if token != swap.expected_lock.as_ref() {
        "another lock"
    } else if swap.change.not_before.is_some_and(|limit| look.now < limit) {
        "too early"
    } else if !swap.change.expects(look.finished) {
        "committed meanwhile"
    } else {
        "too late"
    }
}

/// What is left in the store at the end of a simulation.
pub(super) async fn observe_end(store: &MemoryStore, recorder: &Recorder, keys: &[&str]) {
    for key in keys {
        let Ok(look) = store.look(key).await else { continue };
        let key: Arc<str> = (*key).into();
        let Some(lease) = look.state.claimant.as_ref().filter(|_| !look.state.released) else { continue };
        if let Some(tick) = lease.tick {
            recorder.explain(&lease.server, &key, tick, HELD);
        }
        let ttl = u64::try_from(lease.ttl.as_micros()).unwrap_or(u64::MAX);
        let is_gone = recorder.ended_for(&lease.server).is_some_and(|ended_for| ended_for > ttl);
        if is_gone && lease.until > look.now {
            recorder.add(&lease.server, Observed::HeldAtEnd(LeaseRef { key, fence: look.fence }));
        }
        reached(format_args!("held at the end: {}", VariantName(lease.kind)));
    }
}
