//! Ticks that ran, or were skipped or missed.

use super::*;

#[test]
fn each_outcome_of_a_run_has_its_sentence() {
    let outcomes = [
        (RunOutcome::Succeeded, "ran on web-2 and succeeded in 1.5s"),
        (RunOutcome::Failed, "ran on web-2 and failed after 1.5s: no route"),
        (RunOutcome::Panicked, "ran on web-2 and panicked after 1.5s: no route"),
        (RunOutcome::TimedOut, "ran on web-2 and was cancelled by its timeout after 1.5s: no route"),
        (RunOutcome::Cancelled, "ran on web-2 and was cancelled by the server's shutdown after 1.5s"),
        (
            RunOutcome::LeaseLost,
            "ran on web-2 and was cancelled after 1.5s, because the server could no longer prove its lease: no route",
        ),
        (
            RunOutcome::Crashed,
            "started on web-2 at 03:00 and crashed: its lease ended at 03:00:01 without a release",
        ),
        (
            RunOutcome::NotStarted,
            "was claimed by web-2 at 03:00 and released before the job was called: the application did not poll it in \
             time, or the server was stopping",
        ),
        (RunOutcome::Broken, "ran on web-2, and an operator broke its lock after 1.5s"),
    ];
    for (outcome, sentence) in outcomes {
        let case = Case::new().run(|run| {
            run.outcome = outcome;
            run.error = (outcome != RunOutcome::Succeeded).then(|| "no route".to_owned());
        });
        says(case, at(3, 0), TickFate::Ran(outcome), sentence);
    }
}

#[test]
fn who_stopped_a_run_is_named() {
    for (outcome, sentence) in [
        (RunOutcome::Cancelled, "ran on web-2 and was cancelled by anna after 1.5s"),
        (RunOutcome::Broken, "ran on web-2, and anna broke its lock after 1.5s"),
    ] {
        let case = Case::new().run(|run| (run.outcome, run.stopped_by) = (outcome, Some("anna".to_owned())));
        says(case, at(3, 0), TickFate::Ran(outcome), sentence);
    }
}

#[test]
fn missed_tick_that_ran_late_and_each_attempt_are_named() {
    let late = Case::new().run(|run| run.trigger = Trigger::Missed);
    let sentence = "ran late, because it was missed, on web-2 and succeeded in 1.5s";
    says(late, at(3, 0), TickFate::Ran(RunOutcome::Succeeded), sentence);
    let taken_over = Case::new()
        .run(|run| run.outcome = RunOutcome::Crashed)
        .run(|run| (run.attempt, run.trigger, run.server) = (2, Trigger::Takeover, "web-3".to_owned()));
    let sentence = "attempt 1 started on web-2 at 03:00 and crashed: its lease ended at 03:00:01 without a release; attempt 2 \
                    ran on web-3 and succeeded in 1.5s";
    says(taken_over, at(3, 0), TickFate::Ran(RunOutcome::Succeeded), sentence);
}

#[test]
fn skip_names_the_run_the_manual_run_or_the_program_in_the_way() {
    let holder =
        |server: Option<&str>, tick| SkipHolder { server: server.map(str::to_owned), since: None, tick };
    for (holder, sentence) in [
        (
            Some(holder(Some("web-3"), Some(at(2, 0)))),
            "was skipped because the run of 02:00 still held the key on web-3",
        ),
        (Some(holder(Some("web-3"), None)), "was skipped because a manual run still held the key on web-3"),
        (Some(holder(None, None)), "was skipped because another program held the lock"),
        (None, "was skipped because the key was held"),
    ] {
        says(
            Case::new().skip(Skip::Held, |skip| skip.holder = holder),
            at(3, 0),
            TickFate::Skipped,
            sentence,
        );
    }
}

#[test]
fn skip_of_a_pause_names_who_paused_and_why() {
    let paused = Case::new().skip(Skip::Paused, |skip| skip.pause = Some(pause()));
    let sentence = "was skipped because the job was paused by anna since 02:30: supplier down";
    says(paused, at(3, 0), TickFate::Skipped, sentence);
    says(
        Case::new().skip(Skip::Paused, |_| {}),
        at(3, 0),
        TickFate::Skipped,
        "was skipped because the job was paused",
    );
}

#[test]
fn missed_ticks_share_one_record_and_unreported_ones_are_missed_too() {
    let gap = Gap { after: at(1, 0), before: at(4, 0), schedule: None };
    let why = "was missed: no server was running, the store was unreachable, or every server was too late";
    let recorded = || {
        Case::new().skip(Skip::Missed, |skip| {
            (skip.tick, skip.at, skip.missed) = (at(2, 0), at(4, 0), Some(gap.clone()));
        })
    };
    for tick in [at(2, 0), at(3, 0)] {
        says(recorded(), tick, TickFate::Missed, &format!("{why}; web-1 recorded that at 04:00"));
    }
    assert_eq!(recorded().of(at(1, 0)).0, TickFate::NotOnRecord, "the gap begins after it");
    let unreported = Case::new().with(|case| case.state.missed.push(gap.clone()));
    says(unreported, at(3, 0), TickFate::Missed, &format!("{why}; the next run reports it"));
}

#[test]
fn running_tick_names_its_server_and_who_cancels_it() {
    let case = Case::new().with(|case| {
        let mut lease = lease(Some(at(4, 0)));
        lease.attempt = 2;
        case.state.claimant = Some(lease);
        case.state.cancelled_by = Some("anna".into());
    });
    let sentence = "has been running on web-2 since 04:00, attempt 2; anna has asked to cancel it";
    says(case, at(4, 0), TickFate::Running, sentence);
}
