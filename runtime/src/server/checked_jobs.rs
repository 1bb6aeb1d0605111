//! The jobs of a server: found, overridden by settings, checked all at once.

use std::collections::BTreeMap;

use super::error::{JobProblem, StartError};
use super::store_choice::variable;
use crate::job::Job;
use crate::job::parameters::{Need, States};
use crate::job::registry;

/// The builder's settings of the jobs.
#[derive(Default)]
pub(crate) struct JobSelection {
    pub(crate) annotated: bool,
    pub(crate) built: Vec<Job>,
    pub(crate) schedules: BTreeMap<String, String>,
    pub(crate) disabled: Vec<String>,
    /// Keys that the program must have.
    pub(crate) expected: Vec<String>,
}

/// The environment's settings of the jobs.
#[derive(Default)]
pub(crate) struct Variables {
    schedules: Option<String>,
    disabled: Option<String>,
}

impl Variables {
    pub(crate) fn from_environment() -> Self {
        let value = |name| variable(name).map(|(value, _)| value);
        Self { schedules: value("JOBS_SCHEDULES"), disabled: value("JOBS_DISABLE") }
    }
}

/// The jobs that this server schedules, and those that are disabled on it.
#[derive(Default)]
pub(crate) struct CheckedJobs {
    pub(crate) jobs: Vec<Job>,
    pub(crate) disabled: Vec<Job>,
}

impl JobSelection {
    /// Finds the jobs and checks them all: one error reports every problem of every job, before anything is scheduled.
    pub(crate) fn check(self, states: &States, variables: &Variables) -> Result<CheckedJobs, StartError> {
        self.check_with(Some(states), variables)
    }

    /// The same, without the state that jobs need if none is given.
    pub(crate) fn check_with(
        self,
        states: Option<&States>,
        variables: &Variables,
    ) -> Result<CheckedJobs, StartError> {
        let mut problems = Vec::new();
        let mut jobs = self.built;
        if self.annotated {
            for found in registry::registered() {
                match found {
                    Ok(job) => jobs.push(job),
                    Err((place, found)) => problems.extend(found.into_iter().map(|problem| JobProblem {
                        key: String::new(),
                        place: place.clone(),
                        message: problem.message,
                    })),
                }
            }
        }
        let has = |key: &String| jobs.iter().any(|job| job.policy.key == *key);
        let missing: Vec<_> = self.expected.into_iter().filter(|key| !has(key)).collect();
        if !missing.is_empty() && problems.is_empty() {
            let found = jobs.into_iter().map(|job| job.policy.key).collect();
            return Err(StartError::MissingJobs { missing, found });
        }
        if jobs.is_empty() && problems.is_empty() {
            return Err(StartError::NoJobs);
        }
        jobs.sort_by(|one, other| (&one.policy.key, &one.place).cmp(&(&other.policy.key, &other.place)));

        override_schedules(&mut jobs, &self.schedules, "the builder's `schedule`", true, &mut problems)?;
        let from_environment = parse_schedules(variables.schedules.as_deref())?;
        override_schedules(&mut jobs, &from_environment, "JOBS_SCHEDULES", false, &mut problems)?;

        for job in &jobs {
            problems.extend(job.policy.problems().into_iter().map(|problem| at(job, problem.message)));
            let is_missing = |need: &&Need| states.is_some_and(|states| !states.contains(need.id));
            let missing = job.needs.iter().filter(is_missing);
            problems.extend(missing.map(|need| {
                let name = need.name;
                at(
                    job,
                    format!(
                        "it takes `State<{name}>`, and no `{name}` was given; call `jobs::builder().state(…)`"
                    ),
                )
            }));
        }
        for pair in jobs.windows(2).filter(|pair| pair[0].policy.key == pair[1].policy.key) {
            let message = format!("the same key is used at {}; each key names one job", pair[0].place);
            problems.push(at(&pair[1], message));
        }
        if !problems.is_empty() {
            return Err(StartError::Jobs(problems));
        }
        if let Some(name) = states.and_then(|states| states.repeated.first()) {
            let message = format!("`{name}` was given twice; wrap one of them in a type of its own");
            return Err(StartError::builder("state", message));
        }

        let disabled = disabled_keys(&jobs, self.disabled, variables.disabled.as_deref())?;
        let (disabled, jobs) = jobs.into_iter().partition(|job| disabled.contains(&job.policy.key));
        Ok(CheckedJobs { jobs, disabled })
    }
}

fn at(job: &Job, message: String) -> JobProblem {
    JobProblem { key: job.policy.key.clone(), place: job.place.clone(), message }
}

/// Replaces schedules. An unknown key on the builder is a mistake; in a variable it may be meant for another program with
/// the same environment.
fn override_schedules(
    jobs: &mut [Job],
    schedules: &BTreeMap<String, String>,
    source: &str,
    must_exist: bool,
    problems: &mut Vec<JobProblem>,
) -> Result<(), StartError> {
    for (key, every) in schedules {
        let mut found = false;
        for job in jobs.iter_mut().filter(|job| job.policy.key == *key) {
            found = true;
            let overridden = match &job.policy.schedule {
                Some(schedule) => schedule.overridden(every),
                None => crate::schedule::Schedule::parse(every, None),
            };
            match overridden {
                Ok(schedule) => job.policy.schedule = Some(schedule),
                Err(error) => problems.push(at(job, format!("{source}: {error}"))),
            }
        }
        if !found && must_exist {
            let message = format!(
                "there is no job \"{key}\"; {}",
                known_keys(jobs.iter().map(|job| job.policy.key.as_str()))
            );
            return Err(StartError::Config { source: source.to_owned(), message });
        } else if !found {
            tracing::warn!(target: "jobs", key, "{source} names a job that this program does not have: \"{key}\"");
        }
    }
    Ok(())
}

/// `key=0 4 * * *; other=10m`
fn parse_schedules(text: Option<&str>) -> Result<BTreeMap<String, String>, StartError> {
    let entries = text.unwrap_or_default().split(';').map(str::trim).filter(|entry| !entry.is_empty());
    let parsed = entries.map(|entry| match entry.split_once('=') {
        Some((key, every)) => Ok((key.trim().to_owned(), every.trim().to_owned())),
        None => Err(StartError::Config {
            source: "JOBS_SCHEDULES".to_owned(),
            message: format!("expected `key=schedule; key=schedule`, found \"{entry}\""),
        }),
    });
    parsed.collect()
}

fn disabled_keys(
    jobs: &[Job],
    builder: Vec<String>,
    variable: Option<&str>,
) -> Result<Vec<String>, StartError> {
    let exists = |key: &String| jobs.iter().any(|job| job.policy.key == *key);
    if let Some(key) = builder.iter().find(|key| !exists(key)) {
        let message = format!(
            "there is no job \"{key}\"; {}",
            known_keys(jobs.iter().map(|job| job.policy.key.as_str()))
        );
        return Err(StartError::builder("disable", message));
    }
    let mut disabled = builder;
    for key in variable.unwrap_or_default().split(',').map(str::trim).filter(|key| !key.is_empty()) {
        if key == "*" {
            disabled.extend(jobs.iter().map(|job| job.policy.key.clone()));
        } else if exists(&key.to_owned()) {
            disabled.push(key.to_owned());
        } else {
            tracing::warn!(target: "jobs", key, "JOBS_DISABLE names a job that this program does not have: \"{key}\"");
        }
    }
    Ok(disabled)
}

/// `this program has a, b and 7 more`
pub(crate) fn known_keys<'a>(keys: impl Iterator<Item = &'a str>) -> String {
    let mut keys: Vec<_> = keys.collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.is_empty() {
        return "this program has no jobs".to_owned();
    }
    let more = keys.len().saturating_sub(10);
    keys.truncate(10);
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("this program has {}{and_more}", keys.join(", "))
}
