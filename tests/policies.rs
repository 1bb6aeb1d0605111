//! Every policy of a job, by name, on fleets of servers under Tokio's paused clock: hours pass in milliseconds.

mod policies {
    mod applications;
    mod by_hand;
    mod deploys;
    mod events;
    mod hooks;
    mod kit;
    mod missed;
    mod odd_jobs;
    mod operators;
    mod outages;
    mod overlap;
    mod progress;
    mod retries;
    mod servers;
    mod statistics;
    mod stopping;
    mod support;
    mod takeovers;
    mod timeouts;
    mod unfinished;
}
