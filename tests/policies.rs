//! Every policy of a job, by name, on fleets of servers under Tokio's paused clock: hours pass in milliseconds.

mod policies {
    mod deploys;
    mod missed;
    mod overlap;
    mod retries;
    mod support;
    mod takeovers;
    mod timeouts;
    mod unfinished;
}
