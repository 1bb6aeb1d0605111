//! The overview, a job and its ticks as JSON, for scripts: the command line's `--json` prints it.
//!
//! Instants are texts in RFC 3339, durations are numbers of seconds, and what is not known is `null`.

use std::time::Duration;

use serde_json::{Value, json};

use super::load::{LoadCell, LoadMap};
use super::overview::{DoneWork, JobOverview, JobVariant, Overview};
use super::ticks::TickReport;
use super::timeline::{RunTimeline, ServerLane};
use crate::Timestamp;
use crate::fleet::{Action, HeldLock, ManifestJob, Pause, ServerInfo};
use crate::history::{CurrentRun, Progress, RunRecord, SkipRecord};

/// The version of the JSON documents. A field that is added does not change it.
pub const JSON_FORMAT: u32 = 1;

impl Overview {
    /// Returns everything as one JSON document, in [format](JSON_FORMAT) 1.
    pub fn to_json(&self) -> Value {
        json!({
            "format": JSON_FORMAT,
            "at": time(self.at),
            "jobs": list(&self.jobs, JobOverview::to_json),
            "servers": list(&self.servers, ServerInfo::to_json),
            "lost_servers": list(&self.lost_servers, ServerInfo::to_json),
            "locks": list(&self.locks, lock),
            "done": list(&self.done, DoneWork::to_json),
            "pause": self.pause.as_ref().map(pause),
            "actions": list(&self.actions, action),
        })
    }
}

impl JobOverview {
    /// Returns the job as JSON, without a format of its own.
    pub fn to_json(&self) -> Value {
        json!({
            "key": self.key,
            "description": self.description,
            "place": self.place,
            "arguments": self.arguments,
            "alerts": list(&self.alerts(), |alert| json!(alert.as_str())),
            "schedule": self.schedule,
            "schedule_in_words": self.schedule_in_words,
            "next": self.next.map(time),
            "next_local": self.next_local,
            "current": self.current.as_ref().map(current),
            "runs": list(&self.runs, RunRecord::to_json),
            "skips": list(&self.skips, SkipRecord::to_json),
            "stats": {
                "runs": self.stats.runs,
                "successes": self.stats.successes,
                "failures": self.stats.failures,
                "failures_in_row": self.stats.failures_in_row,
                "mean_seconds": self.stats.mean().map(seconds),
                "longest_seconds": self.stats.longest().map(seconds),
                "last_success": self.stats.last_success.map(time),
            },
            "pause": self.pause.as_ref().map(pause),
            "overdue": self.overdue.map(time),
            "foreign_lock": self.foreign_lock.as_ref().map(lock),
            "servers": self.servers,
            "variants": list(&self.variants, variant),
        })
    }
}

impl TickReport {
    /// Returns the tick as JSON, without a format of its own.
    pub fn to_json(&self) -> Value {
        json!({
            "tick": time(self.tick),
            "fate": self.fate.as_str(),
            "reason": self.reason,
            "runs": list(&self.runs, RunRecord::to_json),
            "skip": self.skip.as_ref().map(SkipRecord::to_json),
        })
    }
}

impl RunRecord {
    /// Returns the record as JSON for people and scripts: instants are texts. It is not what stores keep.
    pub fn to_json(&self) -> Value {
        json!({
            "tick": self.tick.map(time),
            "trigger": self.trigger.as_str(),
            "server": self.server,
            "fence": self.fence,
            "attempt": self.attempt,
            "started": time(self.started),
            "ended": time(self.ended),
            "duration_seconds": seconds(self.duration()),
            "outcome": self.outcome.as_str(),
            "error": self.error,
            "failed_tries": list(&self.failed_tries, |failed| json!({
                "number": failed.number, "at": time(failed.at), "error": failed.error,
            })),
            "progress": self.progress.as_ref().map(progress),
            "by": self.by,
            "stopped_by": self.stopped_by,
            "app_version": self.app_version,
            "log": self.log,
        })
    }
}

impl SkipRecord {
    /// Returns the record as JSON for people and scripts: instants are texts. It is not what stores keep.
    pub fn to_json(&self) -> Value {
        json!({
            "tick": time(self.tick),
            "reason": self.reason.as_str(),
            "server": self.server,
            "at": time(self.at),
            "holder": self.holder.as_ref().map(|holder| json!({
                "server": holder.server, "since": holder.since.map(time), "tick": holder.tick.map(time),
            })),
            "pause": self.pause.as_ref().map(pause),
            "missed": self.missed.as_ref().map(|gap| json!({
                "after": time(gap.after), "before": time(gap.before), "schedule": gap.schedule.as_deref(),
            })),
        })
    }
}

impl Action {
    /// Returns the action as JSON for people and scripts.
    pub fn to_json(&self) -> Value {
        action(self)
    }
}

impl HeldLock {
    /// Returns the lock as JSON for people and scripts.
    pub fn to_json(&self) -> Value {
        lock(self)
    }
}

impl ServerInfo {
    /// Returns the server as JSON for people and scripts.
    pub fn to_json(&self) -> Value {
        json!({
            "id": self.id,
            "started": time(self.started),
            "announced": time(self.announced),
            "version": self.version,
            "app_version": self.app_version,
            "labels": self.labels,
            "clock_ahead_seconds": self.clock_ahead_seconds(),
            "jobs": list(&self.jobs, |job| json!(job.key)),
            "running": list(&self.running, |run| json!({ "key": run.key, "fence": run.fence })),
        })
    }
}

impl DoneWork {
    /// Returns the mark as JSON for people and scripts.
    pub fn to_json(&self) -> Value {
        json!({ "key": self.key, "at": time(self.at), "until": time(self.until) })
    }
}

impl RunTimeline {
    /// Returns the timeline as JSON, without a format of its own.
    pub fn to_json(&self) -> Value {
        json!({
            "from": time(self.from),
            "to": time(self.to),
            "servers": list(&self.lanes, lane),
            "gaps": list(&self.gaps, |gap| json!({
                "key": gap.key, "tick": time(gap.tick), "reason": gap.reason.map_or("overdue", |reason| reason.as_str()),
            })),
            "overlaps": list(&self.overlaps, |overlap| json!({
                "key": overlap.key, "servers": overlap.servers, "from": time(overlap.from), "to": time(overlap.to),
            })),
            "cut_off": self.cut_off.iter().map(|(key, at)| (key.clone(), json!(time(*at)))).collect::<serde_json::Map<_, _>>(),
        })
    }
}

impl LoadMap {
    /// Returns the map as JSON, without a format of its own.
    pub fn to_json(&self) -> Value {
        let cell = |cell: &LoadCell| json!({ "at": time(cell.at), "ticks": cell.ticks, "work_seconds": seconds(cell.work), "jobs": cell.jobs });
        json!({ "step_seconds": seconds(self.step), "cells": list(&self.cells, cell) })
    }
}

impl Pause {
    /// Returns the pause as JSON for people and scripts.
    pub fn to_json(&self) -> Value {
        pause(self)
    }
}

fn list<T>(items: &[T], to_json: impl Fn(&T) -> Value) -> Vec<Value> {
    items.iter().map(to_json).collect()
}

fn time(instant: Timestamp) -> String {
    instant.to_string()
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn current(run: &CurrentRun) -> Value {
    json!({
        "tick": run.tick.map(time),
        "trigger": run.trigger.as_str(),
        "server": run.server,
        "fence": run.fence,
        "attempt": run.attempt,
        "started": time(run.started),
        "until": time(run.until),
        "progress": run.progress.as_ref().map(progress),
        "by": run.by,
        "app_version": run.app_version,
        "cancelled_by": run.cancelled_by,
    })
}

fn progress(progress: &Progress) -> Value {
    json!({ "done": progress.done, "total": progress.total, "status": progress.status })
}

fn pause(pause: &Pause) -> Value {
    json!({
        "by": *pause.by,
        "reason": pause.reason.as_deref(),
        "since": time(pause.since),
        "until": pause.until.map(time),
        "all": pause.all,
    })
}

fn action(action: &Action) -> Value {
    json!({
        "at": time(action.at),
        "by": *action.by,
        "action": action.what.as_str(),
        "key": action.key.as_deref(),
        "note": action.note.as_deref(),
    })
}

fn lock(lock: &HeldLock) -> Value {
    json!({
        "key": lock.key,
        "kind": lock.kind.map_or("foreign", |kind| kind.as_str()),
        "fence": lock.fence,
        "server": lock.holder.server,
        "since": lock.holder.since.map(time),
        "remaining_seconds": lock.holder.remaining.map(seconds),
    })
}

fn lane(lane: &ServerLane) -> Value {
    json!({
        "id": lane.server,
        "alive": lane.is_alive,
        "runs": list(&lane.runs, |run| json!({
            "key": run.key,
            "tick": run.tick.map(time),
            "started": time(run.started),
            "ended": run.outcome.map(|_| time(run.ended)),
            "outcome": run.outcome.map_or("running", |outcome| outcome.as_str()),
            "trigger": run.trigger.as_str(),
            "attempt": run.attempt,
        })),
    })
}

fn variant(variant: &JobVariant) -> Value {
    let described = |job: &ManifestJob| json!({ "schedule": job.schedule, "arguments": job.arguments });
    json!({ "servers": variant.servers, "job": variant.job.as_ref().map(described) })
}
