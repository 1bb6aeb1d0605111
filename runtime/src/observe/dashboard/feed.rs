//! What the pages show, read from the store once for all viewers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::fleet::{JobOverview, LoadMap, Overview, RunTimeline, Ticks};
use crate::observe::fleet::memory::OverviewMemory;
use crate::{Jobs, OperateError};

/// The shortest time between two polls of the store.
pub(super) const POLL: Duration = Duration::from_secs(1);

/// How old an overview may be that a page is rendered from at once. Its live updates follow within a second.
const PAGE_AGE: Duration = Duration::from_secs(3);

/// How old the overview with all runs may be: it takes more to read.
const DEEP_AGE: Duration = Duration::from_secs(5);

/// The runs of each job that pages show, and that the timeline shows: as many as stores keep by default.
const NEWEST_RUNS: usize = 20;
const DEEP_RUNS: usize = 100;

/// The runs of each job on the first page after the start of the program. Its live updates bring the others within a second.
const FIRST_RUNS: usize = 3;

const LOAD_AGE: Duration = Duration::from_secs(60);

/// How old the ticks of a job may be as long as the overview shows no change of it.
const TICKS_AGE: Duration = Duration::from_secs(15);
const MOST_TICKS: usize = 64;

/// How many runs of each job an overview has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Depth {
    Newest,
    All,
}

/// How old an overview may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// Three seconds: a page is to appear at once, and follows the store afterwards.
    Recent,
    /// One second.
    Current,
}

#[derive(Clone)]
pub(super) struct Snapshot {
    pub(super) overview: Arc<Overview>,
    /// Why it could not be read again.
    pub(super) trouble: Option<Arc<str>>,
}

pub(super) struct Feed {
    jobs: Jobs,
    known: StdMutex<Known>,
    /// Held during a poll.
    polling: Mutex<Polling>,
    ticks: Mutex<BTreeMap<String, KnownTicks>>,
}

#[derive(Default)]
struct Known {
    newest: Option<Read>,
    deep: Option<Read>,
    load: Option<(Instant, Arc<LoadMap>)>,
    /// Those of the newest overview.
    timelines: Vec<(Arc<Overview>, Arc<RunTimeline>)>,
    trouble: Option<Arc<str>>,
}

#[derive(Default)]
struct Polling {
    last: Option<Instant>,
    memory: OverviewMemory,
}

#[derive(Clone)]
struct Read {
    overview: Arc<Overview>,
    /// `None` if an action has changed the store since.
    at: Option<Instant>,
    /// Whether it has only the first runs: enough for a page, not for its live updates.
    is_partial: bool,
}

struct KnownTicks {
    job: JobOverview,
    ticks: Arc<Ticks>,
    at: Instant,
}

impl Feed {
    pub(super) fn new(jobs: Jobs) -> Self {
        Self { jobs, known: StdMutex::default(), polling: Mutex::default(), ticks: Mutex::default() }
    }

    /// The overview, at most a second old, or three for a page; or the last one that could be read. Callers at the same time share
    /// one poll.
    pub(super) async fn snapshot(
        &self,
        depth: Depth,
        freshness: Freshness,
    ) -> Result<Snapshot, OperateError> {
        let age = match (depth, freshness) {
            (Depth::All, _) => DEEP_AGE,
            (Depth::Newest, Freshness::Recent) => PAGE_AGE,
            (Depth::Newest, Freshness::Current) => POLL,
        };
        if let Some(snapshot) = self.known().snapshot(depth, freshness, age) {
            return Ok(snapshot);
        }
        let mut polling = self.polling.lock().await;
        // Another caller has polled meanwhile.
        if let Some(snapshot) = self.known().snapshot(depth, freshness, age) {
            return Ok(snapshot);
        }
        if let Some(last) = polling.last {
            sleep_until(last + POLL).await;
        }
        let is_first = freshness == Freshness::Recent && self.known().newest.is_none();
        let newest = match depth {
            _ if is_first => FIRST_RUNS,
            Depth::Newest => NEWEST_RUNS,
            Depth::All => DEEP_RUNS,
        };
        let overview = self.jobs.overview_after(&mut polling.memory, newest).await;
        polling.last = Some(Instant::now());
        self.known().take(depth, overview, is_first)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        // Nothing panics while it is held, and every state of it is valid.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the next request read the store again, because an action has changed it.
    pub(super) async fn invalidate(&self) {
        // A poll that began before the action is not kept as newer.
        let polling = self.polling.lock().await;
        self.known().outdate();
        drop(polling);
        self.ticks.lock().await.clear();
    }

    /// The ticks of a job. They are read again only when the overview shows that the job has changed.
    pub(super) async fn ticks(&self, job: &JobOverview) -> Result<Arc<Ticks>, OperateError> {
        let mut known = self.ticks.lock().await;
        let is_current = |known: &&KnownTicks| known.at.elapsed() < TICKS_AGE && known.job == *job;
        if let Some(known) = known.get(&job.key).filter(is_current) {
            return Ok(known.ticks.clone());
        }
        let ticks = Arc::new(self.jobs.ticks(&job.key).await?);
        known.retain(|_, known| known.at.elapsed() < TICKS_AGE);
        if known.len() < MOST_TICKS {
            let entry = KnownTicks { job: job.clone(), ticks: ticks.clone(), at: Instant::now() };
            known.insert(job.key.clone(), entry);
        }
        Ok(ticks)
    }

    /// The timeline of this overview. Viewers of one range share it.
    pub(super) fn timeline(&self, overview: &Arc<Overview>, span: Duration) -> Arc<RunTimeline> {
        let is_it = |(of, known): &&(Arc<Overview>, Arc<RunTimeline>)| {
            Arc::ptr_eq(of, overview) && known.from == overview.at - span
        };
        if let Some((_, timeline)) = self.known().timelines.iter().find(is_it) {
            return timeline.clone();
        }
        let timeline = Arc::new(overview.timeline(span));
        let mut known = self.known();
        known.timelines.retain(|(of, _)| Arc::ptr_eq(of, overview));
        known.timelines.push((overview.clone(), timeline.clone()));
        timeline
    }

    pub(super) fn load_map(&self, overview: &Overview) -> Arc<LoadMap> {
        if let Some((_, map)) = self.known().load.as_ref().filter(|(at, _)| at.elapsed() < LOAD_AGE) {
            return map.clone();
        }
        let map = Arc::new(overview.load_map());
        self.known().load = Some((Instant::now(), map.clone()));
        map
    }
}

impl Known {
    fn outdate(&mut self) {
        let Self { newest, deep, .. } = self;
        newest.iter_mut().chain(deep).for_each(|read| read.at = None);
    }

    fn snapshot(&self, depth: Depth, freshness: Freshness, age: Duration) -> Option<Snapshot> {
        let read = if depth == Depth::All { &self.deep } else { &self.newest };
        let is_enough = |read: &&Read| !read.is_partial || freshness == Freshness::Recent;
        let is_young = |read: &&Read| read.at.is_some_and(|at| at.elapsed() < age);
        let read = read.as_ref().filter(is_enough).filter(is_young)?;
        Some(Snapshot { overview: read.overview.clone(), trouble: self.trouble.clone() })
    }

    fn take(
        &mut self,
        depth: Depth,
        overview: Result<Overview, OperateError>,
        is_partial: bool,
    ) -> Result<Snapshot, OperateError> {
        let now = Some(Instant::now());
        match overview {
            Ok(overview) => {
                let read = Read { overview: Arc::new(overview), at: now, is_partial };
                self.trouble = None;
                if depth == Depth::All {
                    self.deep = Some(read.clone());
                }
                self.newest = Some(read.clone());
                Ok(Snapshot { overview: read.overview, trouble: None })
            }
            Err(error) => {
                self.trouble = Some(error.to_string().into());
                let known = if depth == Depth::All { &mut self.deep } else { &mut self.newest };
                let read = known.as_mut().ok_or(error)?;
                // It is tried again after the usual time.
                read.at = now;
                Ok(Snapshot { overview: read.overview.clone(), trouble: self.trouble.clone() })
            }
        }
    }
}
