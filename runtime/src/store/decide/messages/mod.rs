mod claim;
mod lease;
mod operator;
mod record;

pub use claim::{
    Claim, ClaimDecision, ClaimPurpose, ClaimReply, Gap, Holder, RegisteredSchedule, Taken, TickClaim,
    UnfinishedTick, WonClaim,
};
pub use lease::{Ending, ExtendReply, FailedTry, Lease, LeaseKind, Progress, ReleaseReply};
pub use operator::{Forgotten, HeldLock, JobInfo, RequestAnswer, RunRequest, RunningInfo, ServerInfo};
pub use record::{CurrentRun, History, RunOutcome, RunRecord, Skip, SkipRecord, Stats};

/// Default number of run records, and of skip records, that a store keeps for each job.
pub const REMEMBERED: usize = 100;
