//! The arguments of `#[locked]`, and their limits.

use std::time::Duration;

use crate::duration::show;
use crate::rules::{LONGEST_TTL, LONGEST_WAIT, Problem, SHORTEST_TTL};
use crate::{KeyTemplate, parse_duration};

const DEFAULT_TTL: Duration = Duration::from_secs(30);

const SHORTEST_WITHIN: Duration = Duration::from_secs(1);
const LONGEST_WITHIN: Duration = Duration::from_secs(3650 * 24 * 3600);

/// The options of a lock that are durations, and their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockDuration {
    /// How long the lock lasts without an extension.
    Ttl,
    /// How long a caller waits for a lock that is held.
    Wait,
    /// The period in which work is not done again.
    Within,
}

impl LockDuration {
    /// The option's name: `ttl`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ttl => "ttl",
            Self::Wait => "wait",
            Self::Within => "within",
        }
    }

    /// Checks the limits. The error is a complete message.
    pub fn check(self, value: Duration) -> Result<(), String> {
        let (shortest, longest, at_most) = match self {
            Self::Ttl => (SHORTEST_TTL, LONGEST_TTL, "\"7days\""),
            Self::Wait => (Duration::ZERO, LONGEST_WAIT, "\"366days\", or \"forever\""),
            Self::Within => (SHORTEST_WITHIN, LONGEST_WITHIN, "\"3650days\""),
        };
        let (name, shown) = (self.name(), show(value));
        if value < shortest {
            return Err(format!("`{name}` \"{shown}\" is too short; at least \"1s\""));
        }
        if value > longest {
            return Err(format!("`{name}` \"{shown}\" is too long; at most {at_most}"));
        }
        Ok(())
    }
}

/// The arguments of `#[locked]` as the author wrote them.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "each field is the argument of its name")]
pub struct LockedSettings<'a> {
    pub key: &'a str,
    pub ttl: Option<&'a str>,
    pub wait: Option<&'a str>,
    pub within: Option<&'a str>,
}

/// The lock of a function.
#[derive(Clone, Debug, Default)]
pub struct LockedPolicy {
    /// The key, with places for values.
    pub key: KeyTemplate,
    /// How long the lock lasts without an extension.
    pub ttl: Duration,
    /// How long a call waits for a lock that is held; `None` waits without a limit.
    pub wait: Option<Duration>,
    /// The period in which a call that succeeded is not run again; `None` for a plain lock.
    pub within: Option<Duration>,
}

impl LockedSettings<'_> {
    /// Returns the policy of these settings, with defaults in place of invalid ones, and all problems. Skips the key if it
    /// is among the arguments that could not be read as text.
    pub fn policy_without(&self, unread: &[&'static str]) -> (LockedPolicy, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut note = |argument, text, why: String| problems.push(Problem::invalid(argument, text, &why));

        let mut policy =
            LockedPolicy { ttl: DEFAULT_TTL, wait: Some(Duration::ZERO), ..LockedPolicy::default() };
        match KeyTemplate::parse(self.key) {
            Ok(key) => policy.key = key,
            Err(why) if !unread.contains(&"key") => note("key", self.key, why),
            Err(_) => {}
        }
        let mut duration = |argument, text| match parse_duration(text) {
            Ok(duration) => Some(duration),
            Err(mut why) => {
                if argument == "wait" {
                    why.push_str(", or \"forever\"");
                }
                note(argument, text, why);
                None
            }
        };
        let ttl = self.ttl.and_then(|text| duration("ttl", text));
        let wait = self.wait.filter(|text| *text != "forever").and_then(|text| duration("wait", text));
        policy.within = self.within.and_then(|text| duration("within", text));
        policy.ttl = ttl.unwrap_or(policy.ttl);
        policy.wait = if self.wait == Some("forever") { None } else { wait.or(policy.wait) };

        let given =
            [(LockDuration::Ttl, ttl), (LockDuration::Wait, wait), (LockDuration::Within, policy.within)];
        for (option, value) in given {
            if let Some(Err(message)) = value.map(|value| option.check(value)) {
                problems.push(Problem::new(option.name(), message));
            }
        }
        (policy, problems)
    }
}
