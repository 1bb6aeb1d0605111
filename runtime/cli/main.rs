//! `jobsctl`: shows and steers the scheduled jobs of a fleet, by its store alone.

mod act;
mod args;
mod doctor;
mod failure;
mod inspect;
mod next;
mod output;
mod plan;
mod serve;
mod time;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use jobs::Jobs;

use args::{Arguments, Command, Options};
use failure::{Answer, Failure};

/// From this similarity on, a key is suggested.
const SIMILAR: f64 = 0.8;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Arguments { options, command } = Arguments::parse();
    match run(&options, command).await {
        Ok(answer) => answer.into(),
        Err(failure) => {
            anstream::eprintln!("{}error:{} {failure}", output::BAD, output::RESET);
            if options.json {
                output::print_json(&serde_json::json!({ "format": 1, "error": failure.to_string() }));
            }
            failure.into()
        }
    }
}

async fn run(options: &Options, command: Command) -> Result<Answer, Failure> {
    match command {
        // These need no store.
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "jobsctl", &mut std::io::stdout());
            return Ok(Answer::Good);
        }
        Command::Next(next) if !next.job => return next::of_schedule(options, &next),
        _ => {}
    }
    let jobs = connect(options).await?;
    let answer = match with_store(options, command, &jobs).await {
        Err(Failure::NoJob(key)) => Err(Failure::NotFound(no_job(&jobs, &key).await)),
        answer => answer,
    };
    jobs.shutdown().await;
    answer
}

/// The message about a key that is not known, with the one that was probably meant.
async fn no_job(jobs: &Jobs, key: &str) -> String {
    let known = jobs.overview().await.map(|overview| overview.jobs).unwrap_or_default();
    let similarity = |known: &str| strsim::jaro_winkler(known, key);
    let keys = known.iter().map(|job| job.key.as_str());
    let nearest = keys.max_by(|one, other| similarity(one).total_cmp(&similarity(other)));
    let meant = nearest.filter(|nearest| similarity(nearest) > SIMILAR);
    let meant = meant.map(|meant| format!("; did you mean \"{meant}\"?")).unwrap_or_default();
    let advice = "`jobsctl list` shows all keys; check --namespace, too";
    format!("no job \"{key}\" is known to the store or to a server{meant}; {advice}")
}

async fn with_store(options: &Options, command: Command, jobs: &Jobs) -> Result<Answer, Failure> {
    match command {
        Command::List(list) => inspect::list(options, jobs, &list).await,
        Command::Show { key } => inspect::show(options, jobs, &key).await,
        Command::History(history) => inspect::history(options, jobs, &history).await,
        Command::Why(why) => inspect::why(options, jobs, &why).await,
        Command::Servers => inspect::servers(options, jobs).await,
        Command::Locks => inspect::locks(options, jobs).await,
        Command::Audit => inspect::audit(options, jobs).await,
        Command::Next(next) => next::of_job(options, jobs, &next).await,
        Command::Run { key } => act::run(options, jobs, &key).await,
        Command::Cancel { key, within } => act::cancel(options, jobs, &key, &within).await,
        Command::Pause(pause) => act::pause(options, jobs, &pause).await,
        Command::Resume(which) => act::resume(options, jobs, &which).await,
        Command::Unlock { key } => act::unlock(options, jobs, &key).await,
        Command::Reset { key } => act::reset(options, jobs, &key).await,
        Command::Forget { key } => act::forget(options, jobs, &key).await,
        Command::Watch(watch) => watch::watch(options, jobs, &watch).await,
        Command::Doctor => doctor::doctor(options, jobs).await,
        Command::Plan(plan) => plan::plan(options, jobs, &plan).await,
        Command::Exporter(exporter) => serve::exporter::serve(jobs, &exporter).await,
        Command::Dashboard(arguments) => serve::dashboard::serve(options, jobs, &arguments).await,
        Command::Completions { .. } => Ok(Answer::Good),
    }
}

/// Files and SQLite would be created, and be empty: a wrong path is a mistake here.
fn exists(url: &str) -> Result<(), Failure> {
    let path = ["file://", "sqlite://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    match path.filter(|path| !std::path::Path::new(path).exists()) {
        Some(path) => Err(Failure::System(format!("no store at {path}; check the path in the URL"))),
        None => Ok(()),
    }
}

async fn connect(options: &Options) -> Result<Jobs, Failure> {
    let mut builder = jobs::builder().without_jobs().server_id("jobs-cli");
    if let Some(url) = options.url.clone().or_else(|| std::env::var("JOBS_URL").ok()) {
        exists(&url)?;
    }
    if let Some(url) = &options.url {
        builder = builder.url(url);
    }
    if let Some(namespace) = &options.namespace {
        builder = builder.namespace(namespace);
    }
    Ok(builder.start_all().await?)
}
