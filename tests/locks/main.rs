//! The guarantees of manual locks, on Tokio's paused clock and on real stores.

mod at_hand;
mod kit;
mod locked;
mod mistakes;
mod operators;
mod processes;
mod real;
mod waiting;

mod endings {
    mod cancelled;
    mod losing;
    mod shutdown;
}
mod kinds {
    mod leader;
    mod mutex;
    mod once;
    mod semaphore;
}
