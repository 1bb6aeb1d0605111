//! The arguments of the command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use jobs::jiff::tz::TimeZone;

/// Shows and steers the scheduled jobs of a fleet, by its store alone.
///
/// Exit codes: 0 success, 1 the answer is bad (a run failed, a problem was found), 2 wrong usage, 3 the store or the request
/// failed, 4 no such job or lock.
#[derive(Debug, Parser)]
#[command(name = "jobsctl", version, max_term_width = 120)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The store's URL, as the servers have it: redis://…, postgres://…, file:///…
    #[arg(long, global = true, env = "JOBS_URL", hide_env_values = true)]
    pub(crate) url: Option<String>,
    /// The namespace of the servers
    #[arg(long, global = true, env = "JOBS_NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Show times in this time zone
    #[arg(long, global = true, value_name = "ZONE", default_value = "UTC", value_parser = time_zone)]
    pub(crate) tz: TimeZone,
    /// Who acts, for the audit list [default: the user and host of this process]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) by: Option<String>,
    /// Act without asking
    #[arg(long, short, global = true)]
    pub(crate) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List all jobs, those with problems first
    #[command(visible_alias = "status")]
    List(List),
    /// Show a job: schedule, state, settings, newest ticks
    Show {
        /// The job's key
        key: String,
    },
    /// List the runs of a job, newest first
    History(History),
    /// Explain why ticks of a job ran, or did not run
    Why(Why),
    /// List the next ticks of a schedule, or of a job
    Next(Next),
    /// List the servers
    Servers,
    /// List held locks, slots and leaderships, and work that is marked as done
    Locks,
    /// Run a job now, on a server that has it, and wait for its end
    Run {
        /// The job's key
        key: String,
    },
    /// Cancel the run of a job, and wait for its end
    Cancel {
        /// The job's key
        key: String,
        /// How long to wait for the end of the run
        #[arg(long, value_name = "DURATION", default_value = "60s")]
        within: String,
    },
    /// Skip the ticks of a job, or of all jobs, until they are resumed
    Pause(Pause),
    /// Resume a job, or all jobs
    Resume(WhichJobs),
    /// Release a lock whose holder is gone, or must stop
    Unlock {
        /// The key of the lock or job
        key: String,
    },
    /// Let a job run again whose mark is in the future, after the store's clock went back
    Reset {
        /// The job's key
        key: String,
    },
    /// Delete the records of a job that no server has any more
    Forget {
        /// The job's key
        key: String,
    },
    /// List the newest actions of operators
    Audit,
    /// Show running jobs and winners, live
    Watch(Watch),
    /// Look for problems of the store, the servers and their clocks
    Doctor,
    /// Show what a new program would change, from the manifest that it prints with `JOBS_MANIFEST=1`
    Plan(Plan),
    /// Serve metrics of the whole fleet for Prometheus
    Exporter(Exporter),
    /// Serve the dashboard: web pages about the fleet
    Dashboard(Dashboard),
    /// Print the completions of a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Show only jobs whose key contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Show only jobs with a problem, and exit with 1 if there are any
    #[arg(long)]
    pub(crate) problems: bool,
    /// The order
    #[arg(long, value_enum, default_value_t = Sort::Problems)]
    pub(crate) sort: Sort,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// Jobs with problems first, then by key
    Problems,
    /// By key
    Key,
    /// The next tick first
    Next,
    /// The newest run first
    Last,
    /// The longest mean duration first
    Duration,
}

#[derive(Debug, Args)]
pub(crate) struct History {
    /// The job's key
    pub(crate) key: String,
    /// How many runs
    #[arg(short, long, default_value_t = 20)]
    pub(crate) number: usize,
    /// Only runs with this outcome
    #[arg(long, value_parser = [
        "succeeded", "failed", "timed_out", "panicked", "cancelled", "lease_lost", "crashed", "not_started", "broken",
        "committed",
    ])]
    pub(crate) outcome: Option<String>,
    /// Also print errors of earlier tries and the end of each run's log
    #[arg(long)]
    pub(crate) log: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Why {
    /// The job's key
    pub(crate) key: String,
    /// A tick: 03:00, 03:00:30, "2026-11-17 03:00" or 2026-11-17T03:00:00Z [default: the newest ticks]
    pub(crate) time: Option<String>,
    /// How many of the newest ticks
    #[arg(short, long, default_value_t = 10)]
    pub(crate) number: usize,
}

#[derive(Debug, Args)]
pub(crate) struct Next {
    /// A schedule such as "0 3 * * *" or 10m, or with --job a job's key
    pub(crate) schedule: String,
    /// The argument is the key of a job
    #[arg(long)]
    pub(crate) job: bool,
    /// How many ticks
    #[arg(short, long, default_value_t = 10)]
    pub(crate) number: usize,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct WhichJobs {
    /// The job's key
    pub(crate) key: Option<String>,
    /// All jobs, and jobs that are deployed meanwhile
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Pause {
    #[command(flatten)]
    pub(crate) which: WhichJobs,
    /// Resume by itself after this time: 2h, for example
    #[arg(long = "for", value_name = "DURATION", conflicts_with = "until")]
    pub(crate) lasting: Option<String>,
    /// Resume by itself at this time: 08:00, "2026-11-18 08:00" or 2026-11-18T08:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Why: shown wherever the pause is
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// The time between two looks
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    pub(crate) interval: String,
    /// End after so many looks [default: until ctrl-c]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) count: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// The manifest of the new program, or - for the standard input
    pub(crate) file: String,
    /// Exit with 1 if the program would change anything
    #[arg(long)]
    pub(crate) exit_code: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Exporter {
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9464")]
    pub(crate) listen: std::net::SocketAddr,
    /// Print the metrics once, and end
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Dashboard {
    /// The address to listen on; beyond this machine only with --token-file
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    pub(crate) listen: std::net::SocketAddr,
    /// A file with the token that requests must present, as bearer token or as password
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<String>,
    /// Allow actions: run, cancel, pause, resume, unlock
    #[arg(long)]
    pub(crate) actions: bool,
    /// The title of the pages
    #[arg(long, default_value = "Jobs")]
    pub(crate) title: String,
}

fn time_zone(name: &str) -> Result<TimeZone, String> {
    if name == "local" {
        return Ok(TimeZone::system());
    }
    TimeZone::get(name).map_err(|_| "expected an IANA time zone such as Europe/Berlin, or local".to_owned())
}
