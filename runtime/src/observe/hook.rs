//! A function of the application that is called for every event.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::event::{Event, Events};

/// Called on the application's runtime, one event after the other.
pub(crate) struct EventHook(pub(crate) Box<dyn Fn(&Event) + Send + Sync>);

impl EventHook {
    /// A hook that panics is called again for the next event, and one that is slow loses events: neither hurts a
    /// run.
    pub(crate) async fn listen(self, mut events: Events) {
        while let Some(event) = events.next().await {
            if catch_unwind(AssertUnwindSafe(|| (self.0)(&event))).is_err() {
                tracing::error!(target: "jobs", ?event, "a hook given to `on_event` panicked");
            }
        }
    }
}
