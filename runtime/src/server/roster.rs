//! The jobs to start: found, overridden, checked all at once.

use std::collections::BTreeMap;

use super::error::{JobProblem, StartError};
use crate::job::Job;
use crate::job::parameters::States;
use crate::job::registry;

pub(crate) struct Roster {
    pub(crate) annotated: bool,
    pub(crate) built: Vec<Job>,
    pub(crate) schedules: BTreeMap<String, String>,
    pub(crate) disabled: Vec<String>,
    pub(crate) schedules_from_outside: Option<String>,
    pub(crate) disabled_from_outside: Option<String>,
}

/// The jobs of this server, and which of them it does not schedule.
#[derive(Default)]
pub(crate) struct Checked {
    pub(crate) jobs: Vec<Job>,
    pub(crate) disabled: Vec<Job>,
}

impl Roster {
    /// Everything that is wrong with any job is said in one error, before anything is scheduled.
    pub(crate) fn check(self, states: &States) -> Result<Checked, StartError> {
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
        if jobs.is_empty() && problems.is_empty() {
            return Err(StartError::NoJobs);
        }
        jobs.sort_by(|one, other| (&one.policy.key, &one.place).cmp(&(&other.policy.key, &other.place)));

        override_schedules(&mut jobs, &self.schedules, "the builder's `schedule`", true, &mut problems)?;
        let outside = parse_schedules(self.schedules_from_outside.as_deref())?;
        override_schedules(&mut jobs, &outside, "JOBS_SCHEDULES", false, &mut problems)?;

        for job in &jobs {
            problems.extend(job.policy.problems().into_iter().map(|problem| at(job, problem.message)));
            let missing = job.needs.iter().filter(|need| !states.contains(need.id));
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
        if let Some(name) = states.repeated.first() {
            let message = format!("`{name}` was given twice; wrap one of them in a type of its own");
            return Err(StartError::Config { source: "the builder's `state`".to_owned(), message });
        }

        let disabled = disabled_keys(&jobs, self.disabled, self.disabled_from_outside.as_deref())?;
        let (disabled, jobs) = jobs.into_iter().partition(|job| disabled.contains(&job.policy.key));
        Ok(Checked { jobs, disabled })
    }
}

fn at(job: &Job, message: String) -> JobProblem {
    JobProblem { key: job.policy.key.clone(), place: job.place.clone(), message }
}

/// An unknown key on the builder is a mistake; in a variable it may be meant for another program that shares
/// the environment.
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
            let message = format!("there is no job \"{key}\"; {}", known(jobs));
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
    outside: Option<&str>,
) -> Result<Vec<String>, StartError> {
    let exists = |key: &String| jobs.iter().any(|job| job.policy.key == *key);
    if let Some(key) = builder.iter().find(|key| !exists(key)) {
        let message = format!("there is no job \"{key}\"; {}", known(jobs));
        return Err(StartError::Config { source: "the builder's `disable`".to_owned(), message });
    }
    let mut disabled = builder;
    for key in outside.unwrap_or_default().split(',').map(str::trim).filter(|key| !key.is_empty()) {
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

fn known(jobs: &[Job]) -> String {
    let mut keys: Vec<_> = jobs.iter().map(|job| job.policy.key.as_str()).collect();
    keys.dedup();
    let more = keys.len().saturating_sub(10);
    keys.truncate(10);
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("this program has {}{and_more}", keys.join(", "))
}
