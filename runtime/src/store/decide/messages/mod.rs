mod claim;
mod lease;
mod operator;
mod record;

pub use claim::{
    Claim, ClaimReply, Gap, Holder, Registered, Taken, TickClaim, Unfinished, Verdict, What, Won,
};
pub use lease::{Ending, ExtendReply, FailedTry, Kind, Lease, Progress, ReleaseReply};
pub use operator::{Forgotten, HeldLock, JobInfo, RequestAnswer, Requested, RunningInfo, ServerInfo};
pub use record::{CurrentRun, History, RunOutcome, RunRecord, Skip, SkipRecord, Stats};

/// How many runs, and how many skips, a store keeps on record unless it is told otherwise.
pub const REMEMBERED: usize = 100;
