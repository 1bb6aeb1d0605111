//! Counts the replies to leases, in a simulation.

use crate::store::decide::UNKNOWN_FENCE;
use crate::store::{
    Claim, ClaimDecision, ClaimPurpose, ClaimReply, ExtendReply, Lease, LeaseKind, ReleaseReply, Taken,
};
use crate::util::probe::reached;

pub(super) fn claimed(claim: &Claim, reply: &ClaimReply) {
    reached(format_args!("claim {}: {}", purpose(&claim.what), decision(&reply.decision)));
    if reply.unfinished.is_some() {
        reached(format_args!("claim tick: shows an unfinished tick"));
    }
    if reply.other_schedule.is_some() {
        reached(format_args!("claim tick: shows another schedule"));
    }
}

pub(super) fn extended(lease: &Lease, reply: &ExtendReply) {
    let reply = match reply {
        ExtendReply::Kept { cancelled_by: None, .. } => "kept",
        ExtendReply::Kept { cancelled_by: Some(_), .. } => "kept, cancelled",
        ExtendReply::Restored(_) => "restored",
        ExtendReply::Lost { broken_by: None } => "lost",
        ExtendReply::Lost { broken_by: Some(_) } => "lost, broken",
    };
    reached(format_args!("extend {}: {reply}", kind(lease)));
}

pub(super) fn released(lease: &Lease, reply: ReleaseReply) {
    reached(format_args!("release {}: {reply:?}", kind(lease)));
}

fn kind(lease: &Lease) -> &'static str {
    match lease.kind {
        LeaseKind::Run => "run",
        LeaseKind::Slot { .. } => "slot",
        _ => "lock",
    }
}

fn purpose(what: &ClaimPurpose) -> &'static str {
    match what {
        ClaimPurpose::Tick(claim) if claim.only_takes_over => "takeover",
        ClaimPurpose::Tick(_) => "tick",
        ClaimPurpose::Now => "now",
        ClaimPurpose::Requested(_) => "requested",
        ClaimPurpose::Lock => "lock",
        ClaimPurpose::Once => "once",
        ClaimPurpose::Leader => "leader",
        ClaimPurpose::Slot(_) => "slot",
    }
}

fn decision(decision: &ClaimDecision) -> &'static str {
    match decision {
        // The caller takes the fence of a new lease from the answer to its swap.
        ClaimDecision::Won(won) if won.lease.fence != UNKNOWN_FENCE => "won again",
        ClaimDecision::Won(won) if !won.missed.is_empty() => "won, with missed ticks",
        ClaimDecision::Won(_) => "won",
        ClaimDecision::Lost => "lost",
        ClaimDecision::Early(_) => "early",
        ClaimDecision::Taken(Taken::Started { finished: true, .. }) => "taken, finished",
        ClaimDecision::Taken(Taken::Started { finished: false, .. }) => "taken, unfinished",
        ClaimDecision::Taken(Taken::Skipped(_)) => "taken, skipped",
        ClaimDecision::Superseded(_) => "superseded",
        ClaimDecision::Ahead(_) => "ahead",
        ClaimDecision::Unregistered => "unregistered",
        ClaimDecision::Paused(_) => "paused",
        ClaimDecision::Late(_) => "late",
        ClaimDecision::Held(holder) if holder.server.is_none() => "held by another program",
        ClaimDecision::Held(_) => "held",
        ClaimDecision::NotRequested => "not requested",
        ClaimDecision::Done(_) => "done",
    }
}
