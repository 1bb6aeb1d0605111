mod audit;
mod claim;
mod lease;
mod operator;
mod pause;
mod record;

pub use audit::{Action, ActionKind, FleetState};
pub use claim::{
    Claim, ClaimDecision, ClaimPurpose, ClaimReply, Gap, Holder, RegisteredSchedule, Taken, TickClaim,
    UnfinishedTick, WonClaim,
};
pub use lease::{Ending, ExtendReply, FailedTry, Lease, LeaseKind, Progress, ReleaseReply, RunDetails};
pub use operator::{Forgotten, HeldLock, JobInfo, RequestAnswer, RunRequest, RunningInfo, ServerInfo};
pub use pause::{Pause, PauseOrder};
pub use record::{CurrentRun, History, RunOutcome, RunRecord, Skip, SkipHolder, SkipRecord, Stats, Trigger};

/// Default number of run records, and of skip records, that a store keeps for each job.
pub const REMEMBERED: usize = 100;
