use std::time::Duration;

use crate::duration::show;
use crate::rules::{LONGEST_TTL, LONGEST_WAIT, Problem, SHORTEST_TTL};
use crate::{KeyTemplate, parse_duration};

const TTL: Duration = Duration::from_secs(30);

/// The shortest time for which work that is done once counts as done.
pub const SHORTEST_WITHIN: Duration = Duration::from_secs(1);
/// The longest time for which work that is done once counts as done.
pub const LONGEST_WITHIN: Duration = Duration::from_secs(3650 * 24 * 3600);

/// The arguments of `#[locked]`, before they are checked.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "each field is the argument of its name")]
pub struct LockedSettings<'a> {
    pub key: &'a str,
    pub ttl: Option<&'a str>,
    pub wait: Option<&'a str>,
    pub within: Option<&'a str>,
}

/// The policy of a locked function.
#[derive(Clone, Debug, Default)]
pub struct LockedPolicy {
    /// Its key.
    pub key: KeyTemplate,
    /// How long its lock lasts without an extension.
    pub ttl: Duration,
    /// How long it waits for a lock that is held; `None` for ever.
    pub wait: Option<Duration>,
    /// For how long it is not run again when it has succeeded; `None` for a plain lock.
    pub within: Option<Duration>,
}

impl LockedSettings<'_> {
    /// The policy these settings describe, and everything that is wrong with them, for which it has the
    /// defaults. The key that could not even be read as text is not judged.
    pub fn policy_without(&self, unread: &[&'static str]) -> (LockedPolicy, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut note = |argument, text, why: String| problems.push(Problem::invalid(argument, text, &why));

        let mut policy = LockedPolicy { ttl: TTL, wait: Some(Duration::ZERO), ..LockedPolicy::default() };
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

        for (argument, value, shortest, longest, most) in [
            ("ttl", ttl, SHORTEST_TTL, LONGEST_TTL, "\"7days\""),
            ("wait", wait, Duration::ZERO, LONGEST_WAIT, "\"366days\", or \"forever\""),
            ("within", policy.within, SHORTEST_WITHIN, LONGEST_WITHIN, "\"3650days\""),
        ] {
            let Some(value) = value else { continue };
            let shown = show(value);
            if value < shortest {
                let message = format!("`{argument}` \"{shown}\" is too short; at least \"1s\"");
                problems.push(Problem::new(argument, message));
            } else if value > longest {
                let message = format!("`{argument}` \"{shown}\" is too long; at most {most}");
                problems.push(Problem::new(argument, message));
            }
        }
        (policy, problems)
    }
}
