//! What a simulation counts in the code that it runs: the replies that were reached.

#[cfg(not(any(test, feature = "testing")))]
pub(crate) fn reached(_what: std::fmt::Arguments<'_>) {}

#[cfg(any(test, feature = "testing"))]
pub(crate) use counted::reached;

#[cfg(any(test, feature = "testing"))]
pub(crate) mod counted {
    use std::cell::RefCell;
    use std::collections::{BTreeMap, HashMap};
    use std::fmt;

    thread_local! {
        static COUNTS: RefCell<Option<ReachedCounts>> = const { RefCell::new(None) };
    }

    #[derive(Default)]
    struct ReachedCounts {
        numbers: HashMap<String, u64>,
        /// The name that is being counted, kept for its memory: most names were counted before.
        name: String,
    }

    impl ReachedCounts {
        fn count(&mut self, what: fmt::Arguments<'_>) {
            self.name.clear();
            fmt::write(&mut self.name, what).expect("a string takes every text");
            match self.numbers.get_mut(&self.name) {
                Some(number) => *number += 1,
                None => drop(self.numbers.insert(self.name.clone(), 1)),
            }
        }
    }

    /// Counts this, if a simulation runs on this thread.
    pub(crate) fn reached(what: fmt::Arguments<'_>) {
        COUNTS.with_borrow_mut(|counts| {
            if let Some(counts) = counts {
                counts.count(what);
            }
        });
    }

    /// Counts on this thread from now on.
    pub(crate) fn start() {
        COUNTS.set(Some(ReachedCounts::default()));
    }

    /// Ends the counting, and returns the counts.
    pub(crate) fn finish() -> BTreeMap<String, u64> {
        COUNTS.take().unwrap_or_default().numbers.into_iter().collect()
    }
}
