//! Shrinks a plan that fails.

use std::time::Duration;

use super::plan::{FaultAction, Plan};

/// Removes faults, locks, jobs and servers, and shortens the times, as long as the plan still fails.
pub fn shrink(plan: &Plan, still_fails: impl Fn(&Plan) -> bool) -> Plan {
    let mut smallest = plan.clone();
    loop {
        let Some(smaller) = smaller_plans(&smallest).into_iter().find(|smaller| still_fails(smaller)) else {
            return smallest;
        };
        smallest = smaller;
    }
}

/// Plans with one thing less, the most effective ones first.
fn smaller_plans(plan: &Plan) -> Vec<Plan> {
    let mut smaller = Vec::new();
    let mut try_out = |change: &dyn Fn(&mut Plan)| {
        let mut changed = plan.clone();
        change(&mut changed);
        smaller.push(changed);
    };
    if plan.faults.len() > 3 {
        try_out(&|plan| drop(plan.faults.drain(..plan.faults.len() / 2)));
        try_out(&|plan| plan.faults.truncate(plan.faults.len() / 2));
    }
    for number in 0..plan.faults.len() {
        try_out(&|plan| {
            plan.faults.remove(number);
        });
    }
    for number in 0..plan.locks.len() {
        try_out(&|plan| remove_key(plan, plan.jobs.len() + number));
    }
    for number in 0..plan.jobs.len() {
        if plan.jobs.len() > 1 {
            try_out(&|plan| remove_key(plan, number));
        }
    }
    if plan.servers.len() > 1 {
        for number in 0..plan.servers.len() {
            try_out(&|plan| remove_server(plan, number));
        }
    }
    let last = plan.faults.last().map_or(Duration::ZERO, |fault| fault.at) + Duration::from_secs(1);
    if plan.faults_for > last {
        try_out(&|plan| plan.faults_for = last);
    }
    for number in 0..plan.jobs.len() {
        if plan.jobs[number].versions.len() > 1 {
            try_out(&|plan| plan.jobs[number].versions.truncate(1));
        }
    }
    for number in 0..plan.servers.len() {
        if plan.servers[number].clock_ahead != 0 || plan.servers[number].lacks.is_some() {
            try_out(&|plan| {
                plan.servers[number].clock_ahead = 0;
                plan.servers[number].lacks = None;
            });
        }
    }
    if plan.store_drift != 0 {
        try_out(&|plan| plan.store_drift = 0);
    }
    if plan.max_concurrent.is_some() {
        try_out(&|plan| plan.max_concurrent = None);
    }
    smaller
}

/// Removes a job or a lock, and the faults on it.
fn remove_key(plan: &mut Plan, number: usize) {
    match number.checked_sub(plan.jobs.len()) {
        Some(lock) => drop(plan.locks.remove(lock)),
        None => drop(plan.jobs.remove(number)),
    }
    for server in &mut plan.servers {
        server.lacks = without(server.lacks, number).filter(|_| plan.jobs.len() > 1);
    }
    plan.faults.retain_mut(|fault| match &mut fault.action {
        FaultAction::ForeignLock { key, .. }
        | FaultAction::ForeignDeletion { key }
        | FaultAction::Operator { key, .. }
        | FaultAction::Wipe { key: Some(key) } => {
            let left = without(Some(*key), number);
            *key = left.unwrap_or_default();
            left.is_some()
        }
        _ => true,
    });
}

/// Removes a server, and the faults on it.
fn remove_server(plan: &mut Plan, number: usize) {
    plan.servers.remove(number);
    plan.faults.retain_mut(|fault| match &mut fault.action {
        FaultAction::Kill { server, .. }
        | FaultAction::Stop { server, .. }
        | FaultAction::BlockApplication { server, .. }
        | FaultAction::CutOff { server, .. }
        | FaultAction::BadNetwork { server, .. }
        | FaultAction::ServerClock { server, .. }
        | FaultAction::Deploy { server, .. }
        | FaultAction::Operator { server, .. } => {
            let left = without(Some(*server), number);
            *server = left.unwrap_or_default();
            left.is_some()
        }
        _ => true,
    });
}

/// A number after another one was removed; `None` for the removed one.
fn without(number: Option<usize>, removed: usize) -> Option<usize> {
    match number {
        Some(number) if number == removed => None,
        Some(number) if number > removed => Some(number - 1),
        other => other,
    }
}
