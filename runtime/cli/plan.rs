//! `jobsctl plan`: what a new program would change, from its manifest.

use std::collections::BTreeSet;
use std::io::Read;

use jobs::Jobs;
use jobs::fleet::{JobOverview, Manifest, ManifestJob, Overview};
use jobs::schedule::Schedule;
use serde_json::{Value, json};

use crate::args::{Options, Plan};
use crate::failure::{Answer, Failure};
use crate::output::{BAD, Cell, FAINT, GOOD, NOTABLE, print_json};
use crate::time::absolute;

/// One difference between the new program and the fleet.
struct Difference {
    key: String,
    kind: Kind,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Added,
    Rescheduled,
    Changed,
    /// Servers have it, and the new program does not.
    Removed,
    /// It is on record, and neither servers nor the new program have it.
    Orphaned,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Rescheduled => "rescheduled",
            Self::Changed => "changed",
            Self::Removed => "removed",
            Self::Orphaned => "orphaned",
        }
    }
}

pub(crate) async fn plan(options: &Options, jobs: &Jobs, plan: &Plan) -> Result<Answer, Failure> {
    let manifest = read(&plan.file)?;
    let overview = jobs.overview().await?;
    let found = differences(options, &manifest, &overview);
    let changes = found.iter().any(|difference| difference.kind != Kind::Orphaned);
    let answer = Answer::good_if(!(plan.exit_code && changes));
    if options.json {
        let found: Vec<_> = found.iter().map(to_json).collect();
        print_json(&json!({ "format": 1, "app_version": manifest.app_version, "changes": found }));
        return Ok(answer);
    }
    let version = manifest.app_version.as_deref().map(|version| format!(" {version}")).unwrap_or_default();
    anstream::println!("the new program{version} has {} jobs", manifest.jobs.len());
    for Difference { key, kind, text } in &found {
        let style = match kind {
            Kind::Added => GOOD,
            Kind::Removed => BAD,
            Kind::Rescheduled | Kind::Changed => NOTABLE,
            Kind::Orphaned => FAINT,
        };
        let word = Cell::new(kind.as_str(), style).padded(12);
        anstream::println!("{word} {key}: {}", Cell::new(text.as_str(), anstyle::Style::new()).painted());
    }
    if !changes {
        anstream::println!("it changes no job");
    }
    Ok(answer)
}

fn read(file: &str) -> Result<Manifest, Failure> {
    let text = if file == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(|error| Failure::System(format!("failed to read {file}: {error}")))?;
    Manifest::from_json(&text).map_err(|why| {
        let hint = "start the new program with JOBS_MANIFEST=1 to print its manifest";
        Failure::Usage(format!("{file}: {why}; {hint}"))
    })
}

fn to_json(difference: &Difference) -> Value {
    json!({ "key": difference.key, "change": difference.kind.as_str(), "text": difference.text })
}

fn differences(options: &Options, manifest: &Manifest, overview: &Overview) -> Vec<Difference> {
    let mut found = Vec::new();
    for new in &manifest.jobs {
        let key = new.key.clone();
        match overview.jobs.iter().find(|job| job.key == key) {
            None => found.push(Difference { key, kind: Kind::Added, text: added(options, new, overview) }),
            Some(old) => found.extend(changes(options, new, old, overview)),
        }
    }
    // A store may serve several programs. Those that share a job with the new one are older versions of it.
    let is_older =
        |server: &&jobs::fleet::ServerInfo| server.jobs.iter().any(|job| manifest.job(&job.key).is_some());
    let older: BTreeSet<_> = overview
        .servers
        .iter()
        .filter(is_older)
        .flat_map(|server| server.jobs.iter().map(|job| &job.key))
        .collect();
    for old in overview.jobs.iter().filter(|job| manifest.job(&job.key).is_none()) {
        let (key, records) =
            (old.key.clone(), format!("its records stay; delete them with `jobsctl forget {}`", old.key));
        if older.contains(&key) {
            found.push(Difference {
                key,
                kind: Kind::Removed,
                text: format!("it will not run any more; {records}"),
            });
        } else if old.servers.is_empty() {
            found.push(Difference {
                key,
                kind: Kind::Orphaned,
                text: format!("no server has it now; {records}"),
            });
        }
    }
    found
}

fn added(options: &Options, new: &ManifestJob, overview: &Overview) -> String {
    let Some(schedule) = new.schedule.as_deref() else { return "only manual runs".to_owned() };
    format!("{schedule}{}", next(options, schedule, overview))
}

fn next(options: &Options, schedule: &str, overview: &Overview) -> String {
    let next = Schedule::from_text(schedule).and_then(|schedule| schedule.next_after(overview.at));
    next.map(|next| format!(", next at {}", absolute(next, &options.tz))).unwrap_or_default()
}

fn changes(options: &Options, new: &ManifestJob, old: &JobOverview, overview: &Overview) -> Vec<Difference> {
    let mut found = Vec::new();
    let shown = |schedule: Option<&str>| schedule.unwrap_or("only manual runs").to_owned();
    if new.schedule != old.schedule {
        let after =
            new.schedule.as_deref().map(|schedule| next(options, schedule, overview)).unwrap_or_default();
        let (from, to) = (shown(old.schedule.as_deref()), shown(new.schedule.as_deref()));
        let text = format!("{from} → {to}{after}");
        found.push(Difference { key: new.key.clone(), kind: Kind::Rescheduled, text });
    }
    if old.arguments.is_empty() {
        return found;
    }
    let names: BTreeSet<_> = new.arguments.keys().chain(old.arguments.keys()).collect();
    let value = |arguments: &std::collections::BTreeMap<String, String>, name: &String| {
        arguments.get(name).cloned().unwrap_or_else(|| "not set".to_owned())
    };
    let changed = names.into_iter().filter(|name| new.arguments.get(*name) != old.arguments.get(*name));
    let changed = changed
        .map(|name| format!("{name} {} → {}", value(&old.arguments, name), value(&new.arguments, name)));
    let changed: Vec<_> = changed.collect();
    if !changed.is_empty() {
        found.push(Difference { key: new.key.clone(), kind: Kind::Changed, text: changed.join(", ") });
    }
    found
}
