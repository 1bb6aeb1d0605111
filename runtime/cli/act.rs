//! The commands that change something. Each is recorded in the audit list with who acted.

use std::io::{IsTerminal, Write};

use jobs::fleet::{Forgotten, HeldLock};
use jobs::history::{RunOutcome, RunRecord};
use jobs::{CancelOutcome, Jobs, RunNow};
use serde_json::{Value, json};

use crate::args::{Options, Pause, WhichJobs};
use crate::failure::{Answer, Failure};
use crate::output::{BAD, Cell, GOOD, NOTABLE, print_json};
use crate::time::{Nearest, absolute, parse, span};

/// Prints what was done: a sentence, or JSON with the name of the result.
fn report(options: &Options, result: &str, details: Value, sentence: &Cell) {
    if options.json {
        let mut document = json!({ "format": 1, "result": result });
        if let (Some(document), Value::Object(details)) = (document.as_object_mut(), details) {
            document.extend(details);
        }
        return print_json(&document);
    }
    anstream::println!("{}", sentence.painted());
}

/// Asks on a terminal; elsewhere `--yes` is needed.
fn confirm(options: &Options, question: &str) -> Result<(), Failure> {
    if options.yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Usage(format!(
            "{question} Pass --yes to confirm: there is no terminal to ask on"
        )));
    }
    anstream::eprint!("{question} [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(|error| Failure::System(error.to_string()))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::Usage("not confirmed; nothing was changed".to_owned())),
    }
}

/// The same handle in the name of the operator.
fn acting(options: &Options, jobs: &Jobs) -> Jobs {
    jobs.by(options.by.clone().unwrap_or_else(user_and_host))
}

pub(crate) fn user_and_host() -> String {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let user = variable("SUDO_USER").or_else(|| variable("USER")).or_else(|| variable("USERNAME"));
    let host = variable("HOSTNAME").or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let host = host.map(|host| format!("@{}", host.trim())).unwrap_or_default();
    format!("{}{host}", user.as_deref().unwrap_or("operator"))
}

fn described(run: &RunRecord) -> String {
    let error = run.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    format!("{} on {} after {}{error}", run.outcome, run.server, span(run.duration()))
}

pub(crate) async fn run(options: &Options, jobs: &Jobs, key: &str) -> Result<Answer, Failure> {
    let overview = jobs.overview().await?;
    if overview.jobs.iter().any(|job| job.key == key && job.servers.is_empty()) {
        let sentence = format!("not started: no server has \"{key}\"; deploy it, or enable it on a server");
        report(options, "no_server", json!({}), &Cell::new(sentence, BAD));
        return Ok(Answer::Bad);
    }
    match acting(options, jobs).run_now(key).await? {
        RunNow::Ran(run) => {
            let is_good = run.outcome == RunOutcome::Succeeded;
            let sentence =
                Cell::new(format!("\"{key}\" {}", described(&run)), if is_good { GOOD } else { BAD });
            report(options, "ran", json!({ "run": run.to_json() }), &sentence);
            Ok(Answer::good_if(is_good))
        }
        RunNow::Held(holder) => {
            let server = holder.server.clone();
            let whose = server.as_deref().unwrap_or("another program");
            let sentence = format!(
                "not started: \"{key}\" is held by {whose}; wait for the end of that run, or cancel it with `jobsctl cancel`"
            );
            report(options, "held", json!({ "server": server }), &Cell::new(sentence, NOTABLE));
            Ok(Answer::Bad)
        }
        other => {
            let sentence = format!(
                "not started: no server that has \"{key}\" took the request within 45 s; `jobsctl servers` shows who is alive"
            );
            let result = if other == RunNow::Busy { "busy" } else { "no_server" };
            report(options, result, json!({}), &Cell::new(sentence, BAD));
            Ok(Answer::Bad)
        }
    }
}

pub(crate) async fn cancel(
    options: &Options,
    jobs: &Jobs,
    key: &str,
    within: &str,
) -> Result<Answer, Failure> {
    confirm(options, &format!("Cancel the run of \"{key}\"?"))?;
    let outcome = acting(options, jobs).cancel(key).within(within).await?;
    let (result, details, sentence, is_good) = match outcome {
        CancelOutcome::NotRunning => ("not_running", json!({}), format!("\"{key}\" was not running"), true),
        CancelOutcome::Ended(run) => (
            "ended",
            json!({ "run": run.to_json() }),
            format!("\"{key}\" has ended: {}", described(&run)),
            true,
        ),
        CancelOutcome::StillRunning(run) => {
            let sentence = format!(
                "\"{key}\" still runs on {} after {within}: its server hangs, or the run blocks without an await. If it must \
                 not keep other servers from running, `jobsctl unlock {key}`, or stop that server",
                run.server
            );
            ("still_running", json!({ "server": run.server }), sentence, false)
        }
        _ => ("ended", json!({ "run": null }), format!("\"{key}\" has ended; its record is gone"), true),
    };
    report(options, result, details, &Cell::new(sentence, if is_good { GOOD } else { BAD }));
    Ok(Answer::good_if(is_good))
}

pub(crate) async fn pause(options: &Options, jobs: &Jobs, pause: &Pause) -> Result<Answer, Failure> {
    let jobs = acting(options, jobs);
    let reason = pause.reason.clone();
    let lasting = lasting(options, &jobs, pause).await?;
    let Some(key) = &pause.which.key else {
        confirm(options, "Pause all jobs?")?;
        let mut pausing = jobs.pause_all();
        if let Some(reason) = reason {
            pausing = pausing.reason(reason);
        }
        if let Some(lasting) = &lasting {
            pausing = pausing.lasting(lasting);
        }
        let paused = pausing.await?;
        let sentence = format!("{} jobs are paused, and jobs that are deployed meanwhile", paused.len());
        report(options, "paused", json!({ "jobs": paused }), &Cell::new(sentence, NOTABLE));
        return Ok(Answer::Good);
    };
    let mut pausing = jobs.pause(key);
    if let Some(reason) = reason {
        pausing = pausing.reason(reason);
    }
    if let Some(lasting) = &lasting {
        pausing = pausing.lasting(lasting);
    }
    let set = pausing.await?;
    let until = set.until.map_or_else(
        || "until it is resumed".to_owned(),
        |until| format!("until {}", absolute(until, &options.tz)),
    );
    let sentence = Cell::new(format!("\"{key}\" is paused {until}"), NOTABLE);
    report(options, "paused", json!({ "key": key, "pause": set.to_json() }), &sentence);
    Ok(Answer::Good)
}

/// How long a pause lasts, as text.
async fn lasting(options: &Options, jobs: &Jobs, pause: &Pause) -> Result<Option<String>, Failure> {
    let Some(until) = &pause.until else { return Ok(pause.lasting.clone()) };
    let now = jobs.overview().await?.at;
    let until = parse(until, &options.tz, now, Nearest::Future).map_err(Failure::Usage)?;
    if until <= now {
        return Err(Failure::Usage(format!("--until: {} has passed", absolute(until, &options.tz))));
    }
    Ok(Some(format!("{}ms", until.since(now).as_millis())))
}

pub(crate) async fn resume(options: &Options, jobs: &Jobs, which: &WhichJobs) -> Result<Answer, Failure> {
    let jobs = acting(options, jobs);
    let Some(key) = &which.key else {
        confirm(options, "Resume all jobs?")?;
        let resumed = jobs.resume_all().await?;
        let sentence = format!("{} jobs are resumed; jobs that were paused alone stay paused", resumed.len());
        report(options, "resumed", json!({ "jobs": resumed }), &Cell::new(sentence, GOOD));
        return Ok(Answer::Good);
    };
    let ended = jobs.resume(key).await?;
    let (result, sentence) = match &ended {
        Some(_) => ("resumed", format!("\"{key}\" is resumed")),
        None => ("not_paused", format!("\"{key}\" was not paused")),
    };
    let ended = ended.as_ref().map(jobs::fleet::Pause::to_json);
    report(options, result, json!({ "key": key, "pause": ended }), &Cell::new(sentence, GOOD));
    Ok(Answer::Good)
}

pub(crate) async fn unlock(options: &Options, jobs: &Jobs, key: &str) -> Result<Answer, Failure> {
    let held = jobs.locks().await?;
    let Some(lock) = held.iter().find(|lock| lock.key == key) else {
        return Err(Failure::NotFound(format!("\"{key}\" is not held; `jobsctl locks` lists what is")));
    };
    let server = lock.holder.server.as_deref().unwrap_or("another program");
    let since =
        lock.holder.since.map(|since| format!(" since {}", absolute(since, &options.tz))).unwrap_or_default();
    let question = format!(
        "Release \"{key}\", which {server} has held{since}? It may still work, and notices at its next extension; another \
         server can start beside it before that."
    );
    confirm(options, &question)?;
    let held = acting(options, jobs).break_lock(key).await?;
    if held.is_empty() {
        return Err(Failure::NotFound(format!("\"{key}\" is not held; `jobsctl locks` lists what is")));
    }
    let holders = held.iter().map(|lock| lock.holder.server.as_deref().unwrap_or("another program"));
    let holders = holders.collect::<Vec<_>>().join(", ");
    let details: Vec<_> = held.iter().map(HeldLock::to_json).collect();
    let sentence = Cell::new(format!("\"{key}\" is released; it was held by {holders}"), GOOD);
    report(options, "unlocked", json!({ "key": key, "held": details }), &sentence);
    Ok(Answer::Good)
}

pub(crate) async fn reset(options: &Options, jobs: &Jobs, key: &str) -> Result<Answer, Failure> {
    let question =
        format!("Reset the mark of \"{key}\"? Ticks between now and the mark may run a second time.");
    confirm(options, &question)?;
    acting(options, jobs).reset(key).await?;
    report(options, "reset", json!({ "key": key }), &Cell::new(format!("\"{key}\" is reset"), GOOD));
    Ok(Answer::Good)
}

pub(crate) async fn forget(options: &Options, jobs: &Jobs, key: &str) -> Result<Answer, Failure> {
    confirm(options, &format!("Delete the records of \"{key}\"?"))?;
    let (result, sentence) = match acting(options, jobs).forget(key).await? {
        Forgotten::Yes => ("forgotten", format!("nothing is left of \"{key}\"")),
        Forgotten::Scheduled(server) => ("scheduled", format!("not deleted: {server} still has \"{key}\"")),
        Forgotten::Held(_) => ("held", format!("not deleted: \"{key}\" is held")),
        Forgotten::Paused => ("paused", format!("not deleted: \"{key}\" is paused; resume it first")),
        Forgotten::TooRecent(at) => {
            let used = absolute(at, &options.tz);
            (
                "too_recent",
                format!("not deleted: \"{key}\" was used at {used}; wait an hour after its last use"),
            )
        }
        _ => ("refused", format!("\"{key}\" was not deleted")),
    };
    let is_good = result == "forgotten";
    report(options, result, json!({ "key": key }), &Cell::new(sentence, if is_good { GOOD } else { BAD }));
    Ok(Answer::good_if(is_good))
}
