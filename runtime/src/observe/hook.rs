//! A function of the application that is called for every event.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::event::{Event, Events};

/// A function given to [`Builder::on_event`](crate::Builder::on_event). It is called on the application's
/// runtime, for one event after the other.
pub(crate) struct EventHook(pub(crate) Box<dyn Fn(&Event) + Send + Sync>);

impl EventHook {
    /// Calls the function for every event. One that panics is called again for the next event, and one that
    /// is slow loses events: neither affects a run.
    pub(crate) async fn listen(self, mut events: Events) {
        while let Some(event) = events.next().await {
            if catch_unwind(AssertUnwindSafe(|| (self.0)(&event))).is_err() {
                tracing::error!(target: "jobs", ?event, "the function given to `on_event` panicked");
            }
        }
    }
}
