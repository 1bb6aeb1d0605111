//! Decides which schedule of a job counts.

use std::time::Duration;

use singleton_jobs_policy::{Missed, Schedule};

use super::super::{Claim, RegisteredSchedule, TickClaim};
use super::transition::Transition;

/// A schedule with which no tick was won for this time is no longer followed by any server.
const ABANDONED: Duration = Duration::from_secs(3600);

impl Transition<'_> {
    /// Remembers the schedule of the newest server, and returns one that differs from the asking server's.
    ///
    /// While old and new servers run side by side the old ones change nothing.
    pub(super) fn register(&mut self, claim: &Claim, ask: &TickClaim) -> Option<RegisteredSchedule> {
        let now = self.now;
        let begun = now - ask.known_for;
        let runs_missed_since = (ask.missed == Missed::RunOnce).then_some(now);
        // A clock that has gone back must not make ticks unknown, or servers old.
        let known = self.registered.as_ref().map(|known| RegisteredSchedule {
            at: known.at.min(now),
            begun: known.begun.min(now),
            used: known.used.min(now),
            ..known.clone()
        });
        let is_newer = |known: &RegisteredSchedule| begun > known.begun || known.used + ABANDONED < now;
        let (registered, other) = match known {
            Some(mut known) if known.schedule == ask.schedule => {
                if is_newer(&known) && runs_missed_since.is_some() != known.runs_missed_since.is_some() {
                    (known.runs_missed_since, known.begun) = (runs_missed_since, begun);
                }
                (known, None)
            }
            Some(known) if !is_newer(&known) => return Some(known),
            other => {
                let old = self.registered.as_ref().and_then(|known| Schedule::from_text(&known.schedule));
                let shared = old.and_then(|old| old.newest_at(now)).filter(|newest| *newest == ask.tick);
                // A tick that both schedules have is about to be decided.
                self.close_registration(shared.unwrap_or(now), &claim.server);
                let (schedule, server) = (ask.schedule.clone(), claim.server.clone());
                (RegisteredSchedule { schedule, at: now, server, begun, used: now, runs_missed_since }, other)
            }
        };
        if self.registered.as_ref() != Some(&registered) {
            let state = self.edit();
            state.registered = Some(registered);
            state.expires = None;
            self.limit_to(claim.ttl, None);
        }
        other
    }
}
