//! Stores that are wrong on purpose, each in one way: a memory store, and a wrapper that changes requests and answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jobs::Timestamp;
use jobs::clock::SystemClock;
use jobs::store::memory::MemoryStore;
use jobs::store::{
    Change, FenceChange, JobRecord, JobRecords, KeyState, LockChange, Look, Note, Notes, Page, Store,
    StoreFuture, Subscription, Swap, SwapReply, Swapped, Topic, Version,
};
use jobs::testing::store::Subject;

/// What is wrong with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Nothing,
    IgnoresTheVersion,
    IgnoresNotBefore,
    IgnoresNotAfter,
    IgnoresTheLock,
    IgnoresTheExpectedLock,
    CountsVersions,
    LowersTheFence,
    TakesTheFenceFromTheLook,
    KeepsTheFenceInSeconds,
    KeepsTheFenceInMilliseconds,
    ReadsTheClockBeforeItWaits,
    AppendsOnRefusal,
    LosesRecords,
    KeepsRecordsOfADeletedKey,
    TrimsNothing,
    ReadsThenWrites,
    AppliesASwapTwice,
    MixesUpLooks,
    ShowsAnOldLook,
    SharesNamespaces,
    KeepsNotesForEver,
    MixesTopics,
    ListsOnePage,
    LosesAField,
    ChangesText,
    FoldsCase,
    NeverNotifies,
    WritesOnLook,
    RefusesWithoutAReason,
}

#[derive(Clone)]
struct Faulty {
    store: MemoryStore,
    fault: Fault,
    looks: Arc<Mutex<Vec<(String, Look)>>>,
    deleted: Arc<Mutex<HashMap<String, JobRecords>>>,
}

/// A faulty store of which everything can be proved.
pub fn subject(fault: Fault) -> Subject {
    let store = MemoryStore::new(Arc::new(SystemClock));
    let faulty = Faulty { store: store.clone(), fault, looks: Arc::default(), deleted: Arc::default() };
    Subject::new(faulty.clone()).with_external_access(store).with_namespaces(move |name| match fault {
        Fault::SharesNamespaces => faulty.clone(),
        _ => Faulty { store: faulty.store.clone().with_namespace(name), ..faulty.clone() },
    })
}

impl Faulty {
    fn key<'a>(&self, key: &'a str) -> std::borrow::Cow<'a, str> {
        match self.fault {
            Fault::FoldsCase => key.to_lowercase().into(),
            _ => key.into(),
        }
    }

    async fn shown(&self, key: &str) -> Look {
        self.store.look(key).await.expect("memory always answers")
    }

    /// Writes a record without any condition.
    async fn force(&self, key: &str, change: Change) {
        let look = self.shown(key).await;
        let expected_lock = look.lock.map(|lock| lock.token);
        let swap = Swap { expected: look.version, expected_lock, nonce: 1, change };
        self.store.swap(key, &swap).await.expect("memory always answers");
    }

    /// The swap as the faulty store understands it.
    async fn misread(&self, key: &str, swap: &Swap) -> Swap {
        let mut swap = swap.clone();
        let change = &mut swap.change;
        match self.fault {
            Fault::IgnoresNotBefore => change.not_before = None,
            Fault::IgnoresNotAfter => change.not_after = None,
            Fault::IgnoresTheLock => change.lock = LockChange::Leave,
            Fault::LosesRecords => change.records.truncate(change.records.len().min(1)),
            Fault::TrimsNothing => change.keep = usize::MAX,
            Fault::NeverNotifies => change.notify = false,
            Fault::LosesAField => {
                change.state = change
                    .state
                    .take()
                    .map(|state| Arc::new(KeyState { broken_until: None, ..KeyState::clone(&state) }));
            }
            Fault::ChangesText => {
                for record in &mut change.records {
                    if let JobRecord::Run(run) = record {
                        run.error = run.error.take().map(|error| error.replace('\0', ""));
                    }
                }
            }
            _ => {}
        }
        let look = self.shown(key).await;
        match self.fault {
            Fault::IgnoresTheVersion if look.version.is_some() == swap.expected.is_some() => {
                swap.expected = look.version;
            }
            Fault::IgnoresTheExpectedLock => {
                swap.expected_lock = look.lock.as_ref().map(|lock| lock.token.clone());
            }
            Fault::TakesTheFenceFromTheLook if swap.change.fence == FenceChange::Next => {
                let looks = self.looks.lock().unwrap();
                let looked = looks.iter().rev().find(|(looked, _)| looked == key);
                let now = looked.map_or(look.now, |(_, look)| look.now);
                swap.change.fence = FenceChange::AtLeast((look.fence + 1).max(now.as_micros()));
            }
            Fault::KeepsTheFenceInSeconds if swap.change.fence == FenceChange::Next => {
                let seconds = look.now.as_micros() / 1_000_000;
                swap.change.fence = FenceChange::AtLeast((look.fence + 1).max(seconds));
            }
            Fault::KeepsTheFenceInMilliseconds if swap.change.fence == FenceChange::Next => {
                let millis = look.now.as_micros() / 1_000;
                swap.change.fence = FenceChange::AtLeast((look.fence + 1).max(millis));
            }
            Fault::ReadsTheClockBeforeItWaits if swap.change.fence == FenceChange::Next => {
                let read = FenceChange::AtLeast((look.fence + 1).max(look.now.as_micros()));
                swap.change.fence = read;
                tokio::time::sleep(Duration::from_millis(swap.nonce % 4)).await;
            }
            _ => {}
        }
        swap
    }

    async fn answer(&self, key: &str, sent: &Swap) -> SwapReply {
        if self.fault == Fault::RefusesWithoutAReason && sent.nonce.is_multiple_of(8) {
            return SwapReply::Changed(self.shown(key).await);
        }
        let swap = self.misread(key, sent).await;
        let before = self.shown(key).await;
        if self.fault == Fault::ReadsThenWrites && before.version == swap.expected {
            tokio::task::yield_now().await;
            let now = self.shown(key).await;
            let late = Swap { expected: now.version, ..swap.clone() };
            return self.store.swap(key, &late).await.expect("memory always answers");
        }
        let found = self.store.records(&[key.to_owned()], usize::MAX).await;
        let records = found.expect("memory always answers").remove(0);
        let mut reply = self.store.swap(key, &swap).await.expect("memory always answers");
        match (&mut reply, self.fault) {
            (SwapReply::Swapped(swapped), Fault::CountsVersions) => {
                // Counted from 1 for each record.
                let count = before.version.map_or(1, |version| version.at.as_micros() + 1);
                swapped.version = Version { at: Timestamp::from_micros(count), nonce: 0 };
            }
            (SwapReply::Swapped(Swapped { fence, .. }), Fault::LowersTheFence) if matches!(swap.change.fence, FenceChange::AtLeast(least) if least < *fence) =>
            {
                let FenceChange::AtLeast(least) = swap.change.fence else { return reply };
                *fence = least;
            }
            (SwapReply::Swapped(_), Fault::AppliesASwapTwice) => {
                let again = self.shown(key).await;
                if again.version.is_some() && sent.expected.is_some() {
                    self.force(key, swap.change.clone()).await;
                }
            }
            (SwapReply::Swapped(_), Fault::KeepsRecordsOfADeletedKey) if swap.change.state.is_none() => {
                self.deleted.lock().unwrap().insert(key.to_owned(), records);
            }
            (SwapReply::Changed(_), Fault::AppendsOnRefusal) if before.version.is_some() => {
                let state = Some(before.state.clone());
                let change = Change { state, lock: LockChange::Leave, ..swap.change.clone() };
                let unlimited =
                    Change { not_before: None, not_after: None, fence: FenceChange::Keep, ..change };
                self.force(key, unlimited).await;
            }
            _ => {}
        }
        reply
    }
}

impl Store for Faulty {
    fn location(&self) -> String {
        format!("{:?}", self.fault)
    }

    fn look<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Look> {
        Box::pin(async move {
            let key = &*self.key(key);
            if self.fault == Fault::WritesOnLook && self.shown(key).await.version.is_none() {
                let state = Some(Arc::new(KeyState { expires: None, ..KeyState::default() }));
                self.force(key, Change { state, ..Change::default() }).await;
            }
            let mut look = self.shown(key).await;
            if self.fault == Fault::MixesUpLooks {
                let number = self.looks.lock().unwrap().len();
                tokio::task::yield_now().await;
                if let Some((_, of_another)) = self.looks.lock().unwrap().get(number) {
                    look = of_another.clone();
                }
            }
            let mut looks = self.looks.lock().unwrap();
            let last = looks.iter().rev().find(|(other, _)| other == key).map(|(_, look)| look.clone());
            looks.push((key.to_owned(), look.clone()));
            Ok(match (self.fault, last) {
                // As from a replica that is behind.
                (Fault::ShowsAnOldLook, Some(last)) if looks.len().is_multiple_of(2) => {
                    Look { now: look.now, ..last }
                }
                _ => look,
            })
        })
    }

    fn swap<'a>(&'a self, key: &'a str, swap: &'a Swap) -> StoreFuture<'a, SwapReply> {
        Box::pin(async move { Ok(self.answer(&self.key(key), swap).await) })
    }

    fn list<'a>(&'a self, page: Option<&'a str>) -> StoreFuture<'a, Page> {
        Box::pin(async move {
            let mut page = self.store.list(page).await?;
            if self.fault == Fault::ListsOnePage {
                page.keys.truncate(1_000);
            }
            Ok(page)
        })
    }

    fn records<'a>(&'a self, keys: &'a [String], newest: usize) -> StoreFuture<'a, Vec<JobRecords>> {
        Box::pin(async move {
            let known: Vec<_> = keys.iter().map(|key| self.key(key).into_owned()).collect();
            let mut found = self.store.records(&known, newest).await?;
            let deleted = self.deleted.lock().unwrap();
            for (key, records) in keys.iter().zip(&mut found) {
                if let Some(deleted) = deleted.get(key) {
                    records.runs.extend(deleted.runs.iter().cloned());
                }
            }
            Ok(found)
        })
    }

    fn put_note<'a>(&'a self, topic: Topic, note: &'a Note, ttl: Duration) -> StoreFuture<'a, Timestamp> {
        Box::pin(async move {
            let ttl = match self.fault {
                Fault::KeepsNotesForEver if !ttl.is_zero() => Duration::from_secs(86_400),
                _ => ttl,
            };
            let topic = if self.fault == Fault::MixesTopics { Topic::Servers } else { topic };
            self.store.put_note(topic, note, ttl).await
        })
    }

    fn notes(&self, topic: Topic) -> StoreFuture<'_, Notes> {
        let topic = if self.fault == Fault::MixesTopics { Topic::Servers } else { topic };
        self.store.notes(topic)
    }

    fn listen<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Subscription>> {
        self.store.listen(key)
    }
}
