//! What each policy does when something goes wrong, on one page.
//!
//! * [The path of a tick](#the-path-of-a-tick)
//! * [The policies](#the-policies)
//! * [What happens when …](#what-happens-when-) a
//!   [server dies](#a-server-dies), is [deployed](#a-deploy-stops-a-server-sigterm) or
//!   [suspended](#a-server-is-stopped-or-its-machine-sleeps); the store is [away at a tick](#the-store-is-away-at-a-tick)
//!   or [during a run](#the-store-is-away-during-a-run), is [wiped](#the-store-is-wiped), or
//!   [loses writes](#a-failover-loses-the-newest-writes); a [clock is wrong](#a-clock-is-wrong);
//!   [everything is down](#the-whole-fleet-is-down); [schedules differ](#servers-follow-different-schedules); a job
//!   [blocks](#a-job-blocks), or [fails or panics](#a-job-fails-or-panics)
//! * [Durations](#durations)
//! * [Watching](#watching): events, statistics, progress, servers
//! * [Limits](#limits)
//!
//! # The path of a tick
//!
//! ```text
//!            tick + jitter, by the store's clock
//!                           │
//!                           ▼
//!        ┌───────────────  due  ───────────────┐
//!        │                  │                  │
//!        │ held, paused     │ a claim wins     │ no claim decides it before
//!        ▼                  ▼                  ▼ a newer tick is decided
//!     skipped            claimed            missed
//!   (on record)             │              (counted)
//!                           ├─────────────────────────┐
//!                    ┌────► │ its function starts     │ the answer came too late,
//!                    │      ▼                         │ or the server shuts down
//!   retry: the same  └── running                      ▼
//!   lease and fence         │                    not_started
//!                           │                         │
//!         ┌─────────────────┴──────┐                  │
//!         │ succeeded, failed,     │ cancelled,       │
//!         │ panicked, timed_out    │ lease_lost,      │
//!         ▼                        ▼ crashed          │
//!      finished               unfinished ◄────────────┘
//!                                  │
//!              ┌───────────────────┴───────────────────────┐
//!              │ on_crash = "retry", attempt ≤ takeovers,  │ else
//!              │ no newer tick was started, not paused,    ▼
//!              ▼ nobody holds the key                     over
//!     taken over: claimed again,
//!     attempt + 1, a higher fence
//! ```
//!
//! *Skipped*, *missed*, *finished* and *over* are final: such a tick does not run again.
//!
//! Every server claims every tick. The store takes the first line that applies, in one atomic step:
//!
//! | | the tick | answer | [event](crate::events::SkipReason) |
//! |---|---|---|---|
//! | 1 | is not due by the store's clock | wait, and ask again | |
//! | 2 | is the last started one, unfinished, and may be taken over | **claimed**, attempt + 1 | [`TakenOver`](crate::events::EventKind::TakenOver) |
//! | 3 | was decided, or a newer one was | no | `Taken`, `Superseded`; `MarkAhead` if the newer one lies in the future |
//! | 4 | lies before the job was known | no | `Unregistered` |
//! | 5 | comes while the job is paused | **skipped**, for all servers | `Paused` |
//! | 6 | is older than its grace; not with `missed = "run_once"`, if the store knew the job before it | no | `Late` |
//! | 7 | comes while the key is held | `overlap = "skip"`: **skipped**, for all servers; `"queue"`, and missed ticks: ask again | `Held` |
//! | 8 | else | **claimed**, attempt 1 | [`Started`](crate::events::EventKind::Started) |
//!
//! A job is *known* to a server from its start, and to the store from the first claim with its present schedule, or from
//! its last resume. A server that starts claims the newest tick that has passed, if it is within its grace, or the job has
//! `missed = "run_once"` or `on_crash = "retry"`; else it begins with the next one.
//!
//! # The policies
//!
//! | policy | what it does |
//! |---|---|
//! | `ttl` | The lease ends so long after the last keep-alive, and keep-alives come every ttl/3. A dead server's key is blocked until then. |
//! | `timeout` | Over the whole run: all tries, and the pauses between them. At its end the function is dropped at its `await`; one that blocks and returns later is recorded as timed out, whatever it returned. Finished: not tried again, not taken over. A takeover has its own. |
//! | `retries`, `retry_delay` | A try that fails or panics is repeated by the same server, under the same lease and fence; [`Run::retry`](crate::Run::retry) counts. One run, one record, with the last 10 failed tries. A takeover has all its retries again. |
//! | `overlap` | `"skip"`: a tick that is due while the key is held is skipped. `"queue"`: it waits within its grace, until a newer tick is due. One tick waits, never two. |
//! | `missed` | `"run_once"`: a tick may start after its grace, until the next one is due, if the store knew the job with this schedule before it. `Run::tick` is the original one. Older ones are only counted. |
//! | `on_crash`, `takeovers` | `"retry"`: an unfinished tick is started again, on any server, whatever its grace; `takeovers` times. It ends when a newer tick starts. A finished run is never repeated, however it ended. |
//! | `grace` | How late a tick may start, counted from tick + jitter. By default the shorter of ttl and gap; with `"queue"` the gap. |
//! | `jitter` | Delays a tick's start by a hash of key and tick: the same on every server, also for a takeover. |
//! | `keep_alive = false` | The lease is never extended. A run that reaches its end, less the margin, is cancelled as `lease_lost`. |
//! | `on_lost = "continue"` | A run without a lease is told ([`Run::cancelled`](crate::Run::cancelled)), and goes on. Its server claims no tick of the job meanwhile; others may. Not with `on_crash = "retry"`. |
//! | [`pause`](crate::Jobs::pause) | On the store, for all servers. Ticks are skipped, takeovers put off, a run that goes on is left alone, runs by hand go on. |
//! | [`run_now`](crate::Jobs::run_now) | Under the lock, beside no other run, paused or not. Consumes no tick: mark and unfinished tick stay as they are. Retries and timeout apply. Never taken over. Ticks that are due meanwhile find the key held. |
//!
//! # What happens when …
//!
//! A policy that is not named under a failure makes no difference to it.
//!
//! ### A server dies
//!
//! Before its claim: another server claims the tick. During a run: the key is held for up to a ttl, then the run counts
//! as `crashed`, ended when its lease did.
//!
//! | policy | |
//! |---|---|
//! | `on_crash = "skip"` | The tick is over. The first tick after the lease's end starts clean. |
//! | `on_crash = "retry"` | Taken over ttl + slack after the last keep-alive. If no server is left: by the next that starts. |
//! | `overlap` | Ticks that are due before the lease's end are skipped, or wait for it. A takeover comes before a tick that waits. |
//! | `retries` | Ended with the server. |
//! | `run_now` | Recorded as `crashed`, not repeated. Whoever asked from another server gets that record. |
//!
//! ### A deploy stops a server (SIGTERM)
//!
//! After [`shutdown`](crate::Jobs::shutdown) it claims nothing more. Runs may go on for 25 s;
//! [`Run::is_stopping`](crate::Run::is_stopping) tells them. Then they are cancelled, and released: `cancelled`, unfinished.
//! A run that ends by itself meanwhile is a run like any other.
//!
//! | policy | |
//! |---|---|
//! | `on_crash = "skip"` | A cancelled tick is over; the next one can start at once. |
//! | `on_crash = "retry"` | A cancelled tick is taken over within ttl + slack, at once by a server that starts then. |
//! | `retries` | None begins during a shutdown: a try that fails then ends as `cancelled`, for another server. |
//! | `overlap = "queue"` | A tick that waits here is left to the others. |
//! | `run_now` | Cancelled like any run. A request that waits is taken up by the next server that announces itself. |
//!
//! ### A server is stopped, or its machine sleeps
//!
//! Shorter than the lease: nothing. Longer: for the others it has died, as above. When it wakes, its run is dropped
//! before it takes another step (`lease_lost`), and of the ticks that have passed only the newest is claimed.
//!
//! | policy | |
//! |---|---|
//! | `on_crash = "retry"` | The tick may be under way elsewhere, with a higher fence. What the old run has sent to a database in its last moment arrives with the lower one. |
//! | `on_lost = "continue"` | The run goes on beside its successor. |
//! | `missed = "run_once"` | If it was the only server, the newest tick it slept through runs. |
//! | `timeout` | Counts time that the process was stopped; time that the machine slept may not count. |
//!
//! ### The store is away at a tick
//!
//! The claim is repeated with the same token, so an answer that got lost does no harm.
//!
//! | policy | |
//! |---|---|
//! | `grace` | Repeated until it is over, then [`Overdue`](crate::events::EventKind::Overdue). |
//! | `missed = "run_once"` | Repeated until the next tick is due. [`Overdue`](crate::events::EventKind::Overdue) is told after the grace. |
//! | `run_now` | Tried for 10 s, then an error. |
//! | `pause` | An error; nothing is paused. |
//!
//! ### The store is away during a run
//!
//! The extension is repeated. Back before the run's deadline: nothing happened. Else the run is cancelled, the margin
//! before its lease ends: `lease_lost`, unfinished. The end of a run is reported for up to 10 min.
//!
//! | policy | |
//! |---|---|
//! | `on_crash = "retry"` | Taken over when the store is back. **Also a run that had ended, if its report did not arrive before its lease was over.** |
//! | `on_lost = "continue"` | The run goes on; when the store is back, others may start beside it. |
//! | `keep_alive = false` | The store is not needed before the end. |
//! | `retries` | None after the deadline. |
//!
//! ### The store is wiped
//!
//! A run that goes on puts its lock, tick and fence back with the next keep-alive, ttl/3 later at most, unless another
//! one has started before. Fences still grow, because they follow the time. History, statistics and pauses are gone.
//!
//! | policy | |
//! |---|---|
//! | `grace` | A tick that had run may run again within it, on a server that was up before the tick. |
//! | `missed = "run_once"` | A tick older than its grace is not run: nobody knows whether it had. |
//! | `on_crash = "retry"` | An unfinished tick is forgotten, unless its run goes on. |
//! | `pause` | Forgotten: **the job runs again.** |
//! | `run_now` | A request that waits is forgotten: [`NoServer`](crate::RunNow::NoServer). |
//!
//! ### A failover loses the newest writes
//!
//! A lost claim: its run restores it with the next keep-alive. Until then another server can start the same tick; its
//! fence is higher, and the older run is cancelled at its next keep-alive. A lost end of a run looks like a crash.
//!
//! | policy | |
//! |---|---|
//! | `missed = "run_once"` | If both the win and the end of a tick are lost, it may run again until the next tick is due, not only within its grace. |
//! | `on_crash = "retry"` | A finished tick whose end is lost is taken over. A takeover that is lost does not count. |
//! | `pause` | A pause or resume that is lost has not happened. |
//!
//! ### A clock is wrong
//!
//! A server's: nothing, ticks follow the store's. A difference of more than 1 s is told
//! ([`ClockDiffers`](crate::events::EventKind::ClockDiffers)). The store's:
//!
//! | the store's clock | |
//! |---|---|
//! | goes back | Ticks up to the mark are not run again (`MarkAhead`), until it has caught up or [`reset`](crate::Jobs::reset) is called. A dead server's lease lasts longer by as much. |
//! | jumps ahead | Leases end: runs are cancelled at their next keep-alive, and may be taken over. Of the ticks in between the newest is claimed, if it is within its grace, or with `missed = "run_once"`. |
//!
//! ### The whole fleet is down
//!
//! The winner of the next tick tells how many nobody ran ([`Missed`](crate::events::EventKind::Missed)).
//!
//! | policy | |
//! |---|---|
//! | `grace` | The newest tick runs at the first start within it. |
//! | `missed = "run_once"` | The newest tick runs at the first start, however late. |
//! | `on_crash = "retry"` | The last started tick, if unfinished, is taken over at the first start, unless a newer one has started. |
//! | `pause` | Lasts. |
//! | `run_now` | A request from a server without the job waits 45 s for one that starts. |
//!
//! ### Servers follow different schedules
//!
//! In a deploy both schedules are followed: each tick of either runs at most once, and never one that is older than the
//! newest decided. The newest server's schedule is the one on the store; each server that finds another there tells so
//! once ([`SchedulesDiffer`](crate::events::EventKind::SchedulesDiffer)).
//!
//! | policy | |
//! |---|---|
//! | `missed = "run_once"` | Only for ticks of the schedule on the store, after its first claim: before a change of schedule nothing counts as missed. |
//! | `jitter`, `grace`, `overlap`, … | Each server's claims go by its own. [`servers`](crate::Jobs::servers) has a hash of each job's policy, to compare. |
//!
//! ### A job blocks
//!
//! That is, it goes without an `await`. Its lease is kept alive by a thread of the crate's own, for as long as it goes on.
//!
//! | policy | |
//! |---|---|
//! | `timeout`, shutdown | Take effect at its next `await`. A shutdown returns 3 s after its grace all the same, and the lease is kept until the process ends. |
//! | `on_crash = "retry"` | Nothing to take over while it goes on. |
//! | `overlap` | Ticks are skipped, or wait. |
//! | `keep_alive = false`, or a lost lease | It goes on without a lease. Its server claims no tick of the job meanwhile; others may. |
//!
//! ### A job fails or panics
//!
//! | policy | |
//! |---|---|
//! | `retries` | It is tried again: the same after an error and after a panic. |
//! | `timeout` | Also ends the pause before a retry. |
//! | `on_crash = "retry"` | No: the tick is finished. But a panic that aborts the process (`panic = "abort"`) is a dead server. |
//! | `overlap` | The lease is kept between tries, so ticks are skipped, or wait. |
//!
//! # Durations
//!
//! | what | how long |
//! |---|---|
//! | keep-alive | every ttl/3 |
//! | a claim, an extension, a release without an answer | given up after ttl/6, at most 5 s, and repeated |
//! | pauses between repetitions | 25–50 ms, doubling up to 0.8–1.6 s; for extensions at most ttl/20 |
//! | a run is cancelled before its lease ends, counted from when the last successful request was sent | margin: the longer of ttl/10 and 200 ms |
//! | takeover after a crash | ttl + slack after the last keep-alive; slack: the shorter of ttl/10 and 200 ms |
//! | takeover of a cancelled run, or after a resume | at most ttl + slack |
//! | `overlap = "queue"`, on the server of the last run | starts at once when that run has ended |
//! | `overlap = "queue"`, on another server | when the lease, as it was last seen, has ended: at most ttl + 2 · slack after that run |
//! | pause before the n-th retry | random, below `retry_delay` · 2ⁿ⁻¹; that bound is at most 5 min, or `retry_delay` if it is longer |
//! | announcement of a server | every 20 s; it counts for 45 s |
//! | `run_now` on a server without the job | taken up within 20 s; given up after 45 s |
//! | a store that cannot be reached at start | tried for 10 s |
//! | [`forget`](crate::Jobs::forget) | an hour after the job's last use |
//!
//! Checked by a fleet of two servers on a paused clock:
//!
//! ```
//! use std::time::Duration;
//! use jobs::{Job, testing::Fleet};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let job = || {
//!     let job = Job::builder("close-books").every("0 * * * *").ttl("30s").retry_on_crash(1);
//!     job.run(|_| tokio::time::sleep(Duration::from_secs(300))).build().unwrap()
//! };
//! let fleet = Fleet::of(2).job(job).start().await.unwrap();
//! fleet.run_for(Duration::from_secs(3600 + 35)).await; // kept alive after 10, 20 and 30 s
//! fleet.running("close-books").await.unwrap().crash();
//! fleet.run_for(Duration::from_secs(60)).await;
//!
//! let history = fleet.history("close-books").await;
//! let (crashed, second) = (&history.runs[0], history.current.unwrap());
//! assert_eq!(crashed.duration(), Duration::from_secs(30 + 30));
//! assert_eq!(second.started.since(crashed.ended), Duration::from_millis(200)); // the slack
//! assert_eq!((second.attempt, second.tick), (2, crashed.tick));
//! assert!(second.fence > crashed.fence);
//! # }
//! ```
//!
//! # Watching
//!
//! **Events.** [`Jobs::events`](crate::Jobs::events) is a stream, [`Builder::on_event`](crate::Builder::on_event) a
//! function: what happens *on this server*. Every event is also a log line (target `jobs`). A listener that is more than
//! 512 events behind loses the oldest, and is told how many. Nobody waits for it.
//!
//! | event | told when |
//! |---|---|
//! | [`Overrun`](crate::events::EventKind::Overrun) | a run takes more than twice the mean of the job's successful runs, once there are three; once per run |
//! | [`Overdue`](crate::events::EventKind::Overdue) | a tick was not started within its grace, as far as this server knows; once per tick |
//! | [`Missed`](crate::events::EventKind::Missed) | a tick was won, and nobody had run or skipped those before it; counts up to 1000 |
//! | [`Retrying`](crate::events::EventKind::Retrying) | a try has failed, and the next one follows |
//! | [`TakenOver`](crate::events::EventKind::TakenOver) | a run begins here with an attempt above 1 |
//!
//! **History.** [`Jobs::history`](crate::Jobs::history) is what *the store* knows, from all servers: the run that goes on,
//! the last 100 runs and 100 skips ([`remember`](crate::Builder::remember)), whether the job is paused. A run whose lease
//! is over without a word is shown as `crashed` from that moment.
//!
//! **Statistics.** [`Stats`](crate::history::Stats) counts over all runs since the job was first known. `failures` are failed,
//! timed out, panicked and crashed; cancelled and lost runs are only `runs`. Mean and longest are taken over successful
//! runs, from claim to release by the store's clock: a run that fails after a second does not make the next look slow.
//!
//! **Progress.** [`Run::set_progress`](crate::Run::set_progress) and [`Run::set_status`](crate::Run::set_status) cost no trip to the store:
//! they travel with the keep-alive, ttl/3 later at most, and with the run's record. With `keep_alive = false` only with
//! the record.
//!
//! **Servers.** [`Jobs::servers`](crate::Jobs::servers) lists who shares store and namespace, with their jobs, runs, version
//! and clock. It is at most 20 s old. A dead server is in it for up to 45 s, one that was shut down is not.
//!
//! # Limits
//!
//! * A run can end half-way, and with `on_crash = "retry"` a tick can be worked on more than once. Make writes
//!   repeatable, and guard them by [`Run::fence`](crate::Run::fence).
//! * A failover that loses writes can let a tick run twice. With `missed = "run_once"` that lasts until the next tick is
//!   due.
//! * After a change of schedule nothing before it counts as missed.
//! * After a [`resume`](crate::Jobs::resume) ticks that passed before or during the pause are not run. An unfinished tick is
//!   still taken over.
//! * A late copy of a message can hold a key for one more ttl, starting nothing.
