//! Rules about combinations of settings, and the message of each.

use std::fmt;
use std::time::Duration;

use crate::duration::show;
use crate::policy::{OnCrash, OnLost};
use crate::timing::margin;
use crate::{Policy, check_key};

/// A problem with a job, and the argument at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The argument at fault, as it is written in the attribute.
    pub argument: &'static str,
    /// What is wrong and what to write instead, complete on its own.
    pub message: String,
}

impl Problem {
    pub(crate) fn new(argument: &'static str, message: impl Into<String>) -> Self {
        Self { argument, message: message.into() }
    }

    pub(crate) fn invalid(argument: &'static str, text: &str, why: &str) -> Self {
        Self::new(argument, format!("invalid `{argument}` \"{text}\": {why}"))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// A lease shorter than this cannot be kept alive over a network.
pub(crate) const SHORTEST_TTL: Duration = Duration::from_secs(1);
/// Beyond this a lease is a forgotten lock: keep-alive makes a long job safe with a short one.
pub(crate) const LONGEST_TTL: Duration = Duration::from_secs(7 * 24 * 3600);
/// Beyond this a wait is a mistake, and instants leave the calendar.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(366 * 24 * 3600);
const MOST_RETRIES: u32 = 100;

impl Policy {
    /// Everything that is wrong with this policy; empty for a job that can be scheduled.
    pub fn problems(&self) -> Vec<Problem> {
        self.problems_without(&[])
    }

    /// Everything that is wrong with this policy, without the rules that involve an argument whose value
    /// could not be read: they would judge a default that was not chosen.
    pub fn problems_without(&self, unread: &[&str]) -> Vec<Problem> {
        let mut found = Vec::new();
        // The first argument is the one at fault, the others are what it does not go with.
        let mut rule = |broken: bool, arguments: &[&'static str], message: String| {
            if broken && !arguments.iter().any(|argument| unread.contains(argument)) {
                found.push(Problem::new(arguments[0], message));
            }
        };

        if let Err(why) = check_key(&self.key) {
            rule(true, &["key"], format!("invalid `key` \"{}\": {why}", self.key));
        }
        let ttl = show(self.ttl);
        rule(self.ttl < SHORTEST_TTL, &["ttl"], format!("`ttl` \"{ttl}\" is too short; at least \"1s\""));
        rule(self.ttl > LONGEST_TTL, &["ttl"], format!("`ttl` \"{ttl}\" is too long; at most \"7days\""));
        for (argument, value) in [("timeout", self.timeout), ("grace", self.grace), ("jitter", self.jitter)] {
            rule(
                value == Some(Duration::ZERO),
                &[argument],
                format!("`{argument}` must be longer than zero"),
            );
            rule(
                value.is_some_and(|value| value > LONGEST_WAIT),
                &[argument],
                format!("`{argument}` is too long; at most \"366days\""),
            );
        }
        let lasts = self.ttl.saturating_sub(margin(self.ttl));
        if let Some(timeout) = self.timeout.filter(|timeout| !self.keep_alive && *timeout > lasts) {
            let (timeout, lasts) = (show(timeout), show(lasts));
            let message = format!(
                "`timeout` \"{timeout}\" is longer than {lasts}, after which a run with `ttl` \"{ttl}\" and \
                 `keep_alive = false` ends in any case; shorten it or lengthen `ttl`"
            );
            rule(true, &["timeout", "ttl", "keep_alive"], message);
        }
        rule(
            self.retries > MOST_RETRIES,
            &["retries"],
            format!("`retries` {} is too many; at most {MOST_RETRIES}", self.retries),
        );
        rule(
            self.takeovers == 0 && self.on_crash == OnCrash::Retry,
            &["takeovers", "on_crash"],
            "`takeovers` must be at least 1; leave out `on_crash = \"retry\"` for none".to_owned(),
        );
        rule(
            self.pause_after == Some(0),
            &["pause_after"],
            "`pause_after` must be at least 1; leave it out for a job that is never paused by itself"
                .to_owned(),
        );
        rule(
            self.on_lost == OnLost::Continue && self.on_crash == OnCrash::Retry,
            &["on_lost", "on_crash"],
            "`on_lost = \"continue\"` cannot be combined with `on_crash = \"retry\"`: the run that goes on and the \
             server that takes its tick over would work at the same time"
                .to_owned(),
        );
        if let (Some(schedule), Some(jitter)) = (&self.schedule, self.jitter) {
            let gap = schedule.shortest_gap();
            let (shown, limit) = (show(jitter), show(gap));
            let message = format!("`jitter` \"{shown}\" must be shorter than the gap between ticks, {limit}");
            rule(jitter >= gap, &["jitter", "every", "tz"], message);
        }
        found
    }
}
