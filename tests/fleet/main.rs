//! Every policy of a job, by name, on fleets of servers under Tokio's paused clock: hours pass in milliseconds.

mod common;
mod guide;
mod kit;
mod odd_jobs;

mod observing {
    mod events;
    mod hooks;
    mod job_hooks;
    mod log_tail;
    mod progress;
    mod statistics;
}
mod operating {
    mod manual_runs;
    mod operators;
    mod overview;
    mod pausing;
}
mod runs {
    mod missed;
    mod outages;
    mod overlap;
    mod retries;
    mod takeovers;
    mod timeouts;
    mod unfinished;
}
mod servers {
    mod applications;
    mod deploys;
    mod registry;
    mod stopping;
}
