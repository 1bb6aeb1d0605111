//! The settings of a job as its author wrote them.

use crate::policy::{Missed, OnCrash, OnLost, Overlap};
use crate::rules::Problem;
use crate::{Policy, Schedule, check_key, parse_duration};

/// The attribute's arguments, before they are checked.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "each field is the argument of its name")]
pub struct Settings<'a> {
    pub key: &'a str,
    pub ttl: Option<&'a str>,
    pub every: Option<&'a str>,
    pub tz: Option<&'a str>,
    pub timeout: Option<&'a str>,
    pub retries: Option<u32>,
    pub retry_delay: Option<&'a str>,
    pub overlap: Option<&'a str>,
    pub missed: Option<&'a str>,
    pub on_crash: Option<&'a str>,
    pub takeovers: Option<u32>,
    pub grace: Option<&'a str>,
    pub jitter: Option<&'a str>,
    pub keep_alive: Option<bool>,
    pub on_lost: Option<&'a str>,
    pub pause_after: Option<u32>,
}

impl Settings<'_> {
    /// Checks the settings and returns their policy, or every problem with them.
    pub fn policy(&self) -> Result<Policy, Vec<Problem>> {
        self.policy_without(&[])
    }

    /// Checks the settings, without the rules that involve an argument that could not be read as text, number
    /// or flag.
    pub fn policy_without(&self, unread: &[&'static str]) -> Result<Policy, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut policy = Policy::new(self.key);

        if let Some(why) = check_key(self.key).err().filter(|_| !unread.contains(&"key")) {
            problems.push(Problem::invalid("key", self.key, &why));
        }
        let mut duration = |argument, text: Option<&str>| match parse_duration(text?) {
            Ok(duration) => Some(duration),
            Err(why) => {
                problems.push(Problem::invalid(argument, text.unwrap_or_default(), &why));
                None
            }
        };
        if let Some(ttl) = duration("ttl", self.ttl) {
            policy.ttl = ttl;
        }
        if let Some(delay) = duration("retry_delay", self.retry_delay) {
            policy.retry_delay = delay;
        }
        policy.timeout = duration("timeout", self.timeout);
        policy.grace = duration("grace", self.grace);
        policy.jitter = duration("jitter", self.jitter);

        policy.overlap = choose("overlap", self.overlap, Overlap::CHOICES, &mut problems);
        policy.missed = choose("missed", self.missed, Missed::CHOICES, &mut problems);
        policy.on_crash = choose("on_crash", self.on_crash, OnCrash::CHOICES, &mut problems);
        policy.on_lost = choose("on_lost", self.on_lost, OnLost::CHOICES, &mut problems);

        policy.retries = self.retries.unwrap_or(policy.retries);
        policy.takeovers = self.takeovers.unwrap_or(policy.takeovers);
        policy.pause_after = self.pause_after;
        policy.keep_alive = self.keep_alive.unwrap_or(policy.keep_alive);

        match self.every.map(|every| Schedule::parse(every, self.tz)).transpose() {
            Ok(schedule) => policy.schedule = schedule,
            Err(error) => problems.push(Problem::new(error.argument(), error.to_string())),
        }
        let unread: Vec<_> =
            problems.iter().map(|problem| problem.argument).chain(unread.iter().copied()).collect();
        self.contradictions(&policy, &unread, &mut problems);
        problems.extend(policy.problems_without(&unread));
        if problems.is_empty() { Ok(policy) } else { Err(problems) }
    }

    /// Checks for arguments that need another one. These rules look at the settings, not at the policy, since
    /// defaults cannot contradict each other.
    fn contradictions(&self, policy: &Policy, unread: &[&str], problems: &mut Vec<Problem>) {
        let mut needs = |given: bool, argument, other, what: &str| {
            if given && !unread.contains(&argument) && !unread.contains(&other) {
                problems.push(Problem::new(argument, format!("`{argument}` needs {what}")));
            }
        };
        for (argument, given) in [
            ("tz", self.tz.is_some()),
            ("jitter", self.jitter.is_some()),
            ("grace", self.grace.is_some()),
            ("missed", self.missed.is_some()),
            ("overlap", self.overlap.is_some()),
            ("on_crash", self.on_crash.is_some()),
        ] {
            let given = given && self.every.is_none();
            needs(given, argument, "every", "a schedule; add `every = \"0 * * * *\"`");
        }
        needs(
            self.takeovers.is_some() && policy.on_crash != OnCrash::Retry,
            "takeovers",
            "on_crash",
            "`on_crash = \"retry\"`",
        );
        needs(
            self.retry_delay.is_some() && policy.retries == 0,
            "retry_delay",
            "retries",
            "`retries`; add `retries = 3`",
        );
    }
}

fn choose<T: Copy + Default>(
    argument: &'static str,
    text: Option<&str>,
    choices: &[(&'static str, T)],
    problems: &mut Vec<Problem>,
) -> T {
    let Some(text) = text else { return T::default() };
    if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == text) {
        return *choice;
    }
    let names: Vec<_> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    problems.push(Problem::invalid(argument, text, &format!("expected {}", names.join(" or "))));
    T::default()
}
