//! What a simulation counts in the code that it runs: the replies that were reached.

#[cfg(not(any(test, feature = "testing")))]
pub(crate) fn reached(_what: impl FnOnce() -> String) {}

#[cfg(any(test, feature = "testing"))]
pub(crate) use counted::reached;

#[cfg(any(test, feature = "testing"))]
pub(crate) mod counted {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    thread_local! {
        static COUNTS: RefCell<Option<BTreeMap<String, u64>>> = const { RefCell::new(None) };
    }

    /// Counts this, if a simulation runs on this thread.
    pub(crate) fn reached(what: impl FnOnce() -> String) {
        COUNTS.with_borrow_mut(|counts| {
            if let Some(counts) = counts {
                *counts.entry(what()).or_default() += 1;
            }
        });
    }

    /// Counts on this thread from now on.
    pub(crate) fn start() {
        COUNTS.set(Some(BTreeMap::new()));
    }

    /// Ends the counting, and returns the counts.
    pub(crate) fn finish() -> BTreeMap<String, u64> {
        COUNTS.take().unwrap_or_default()
    }
}
