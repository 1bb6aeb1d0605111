//! One key of a store under test, and the two verbs on it.

use std::sync::Arc;
use std::time::Duration;

use crate::Timestamp;
use crate::history::{RunOutcome, RunRecord, Stats};
use crate::store::{
    Change, FenceChange, JobRecord, JobRecords, KeyState, Look, Page, Store, StoreErrorKind, Swap, SwapReply,
    Swapped, Trigger,
};
use crate::util::random;

use super::Subject;

/// One key of a store.
#[derive(Clone)]
pub(super) struct TestKey {
    pub(super) store: Arc<dyn Store>,
    pub(super) name: String,
}

impl TestKey {
    pub(super) fn of(subject: &Subject) -> Self {
        Self::named(subject, "import-products")
    }

    pub(super) fn named(subject: &Subject, name: &str) -> Self {
        Self { store: Arc::clone(&subject.store), name: name.to_owned() }
    }

    /// The same key in a namespace.
    pub(super) fn in_namespace(subject: &Subject, namespace: &str) -> Self {
        Self { store: subject.in_namespace(namespace), ..Self::of(subject) }
    }

    pub(super) async fn look(&self) -> Look {
        self.store.look(&self.name).await.expect("look")
    }

    pub(super) async fn records(&self) -> JobRecords {
        let found = self.store.records(std::slice::from_ref(&self.name), usize::MAX).await.expect("records");
        found.into_iter().next().expect("as many as keys")
    }

    /// Sends a swap. One that was applied, and is not on all replicas yet, is an applied one.
    pub(super) async fn swap(&self, swap: &Swap) -> SwapReply {
        match self.store.swap(&self.name, swap).await {
            Err(error) if error.kind() == StoreErrorKind::NotReplicated => {
                let look = self.look().await;
                match look.version {
                    Some(version) if version.nonce == swap.nonce => {
                        SwapReply::Swapped(Swapped { now: version.at, version, fence: look.fence })
                    }
                    _ => SwapReply::Changed(look),
                }
            }
            reply => reply.expect("swap"),
        }
    }

    /// Sends a swap that must be applied.
    pub(super) async fn applied(&self, swap: &Swap) -> Swapped {
        match self.swap(swap).await {
            SwapReply::Swapped(swapped) => swapped,
            SwapReply::Changed(look) => panic!("the swap {swap:?} should be applied, but: {look:?}"),
        }
    }

    /// Sends a swap that must be refused.
    pub(super) async fn refused(&self, swap: &Swap) -> Look {
        match self.swap(swap).await {
            SwapReply::Changed(look) => look,
            SwapReply::Swapped(swapped) => panic!("the swap {swap:?} should be refused, but: {swapped:?}"),
        }
    }

    /// Writes a change of the record as it is.
    pub(super) async fn write(&self, change: Change) -> Swapped {
        self.applied(&from(&self.look().await, change)).await
    }

    /// Waits until the store's clock is past an instant.
    pub(super) async fn wait_until_after(&self, instant: Timestamp) {
        loop {
            let now = self.look().await.now;
            if now > instant {
                return;
            }
            tokio::time::sleep(instant.since(now) + Duration::from_millis(2)).await;
        }
    }

    /// All keys of the store, over all pages.
    pub(super) async fn list(&self) -> Vec<(String, Look)> {
        let mut keys = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let page: Page = self.store.list(next.as_deref()).await.expect("list");
            keys.extend(page.keys);
            next = page.next;
            if next.is_none() {
                return keys;
            }
        }
    }
}

/// A swap of the record that a look shows.
pub(super) fn from(look: &Look, change: Change) -> Swap {
    Swap {
        expected: look.version,
        expected_lock: look.lock.as_ref().map(|lock| Arc::clone(&lock.token)),
        nonce: random(),
        change,
    }
}

/// A change to the state of a job that differs from every state with another number.
pub(super) fn numbered(number: u64) -> Change {
    Change { state: Some(state(number)), keep: 10, grants_lease: true, ..Change::default() }
}

pub(super) fn state(number: u64) -> Arc<KeyState> {
    let stats = Stats { runs: number, ..Stats::default() };
    Arc::new(KeyState { stats, expires: None, ..KeyState::default() })
}

/// A change that deletes the record.
pub(super) fn deletion() -> Change {
    Change::default()
}

/// The same change with another fence.
pub(super) fn with_fence(fence: FenceChange, change: Change) -> Change {
    Change { fence, ..change }
}

/// The record of a run with this fence.
pub(super) fn run(fence: i64) -> JobRecord {
    JobRecord::Run(RunRecord {
        tick: None,
        server: "a".to_owned(),
        fence,
        attempt: 1,
        started: Timestamp::from_micros(fence),
        ended: Timestamp::from_micros(fence + 1),
        outcome: RunOutcome::Succeeded,
        error: None,
        failed_tries: Vec::new(),
        log: None,
        progress: None,
        request: None,
        trigger: Trigger::Schedule,
        by: None,
        stopped_by: None,
        app_version: None,
    })
}

/// The fences of run records.
pub(super) fn fences(records: &JobRecords) -> Vec<i64> {
    records.runs.iter().map(|run| run.fence).collect()
}

/// Texts that stores tend to change: every script, quotes, escapes, control characters, formats of other languages.
pub(super) const TEXTS: [&str; 6] = [
    "",
    " spaces at the ends ",
    "quotes \" ' ` and \\ backslashes \\n \\u0000",
    "line\nbreaks\r\n\ttabs \u{1} \u{7f} and \0 a zero byte",
    "Grüße, 日本, 🎉, \u{202e}right to left, e\u{301} combined",
    "%s %d {} {0} ${a} $1 [[1e999]] NULL null nil -- ; DROP TABLE job",
];
