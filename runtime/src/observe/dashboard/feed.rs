//! What the pages show, read from the store once for all viewers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::fleet::{JobOverview, LoadMap, Overview, Ticks};
use crate::{Jobs, OperateError};

/// The shortest time between two polls of the store.
pub(super) const POLL: Duration = Duration::from_secs(1);

/// How old the overview with all runs may be: it takes more to read.
const DEEP_AGE: Duration = Duration::from_secs(5);

/// The runs of each job that the timeline shows: as many as stores keep by default.
const DEEP_RUNS: usize = 100;

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

#[derive(Clone)]
pub(super) struct Snapshot {
    pub(super) overview: Arc<Overview>,
    /// Why it could not be read again.
    pub(super) trouble: Option<Arc<str>>,
}

pub(super) struct Feed {
    jobs: Jobs,
    state: Mutex<FeedState>,
    ticks: Mutex<BTreeMap<String, KnownTicks>>,
}

#[derive(Default)]
struct FeedState {
    newest: Option<Read>,
    deep: Option<Read>,
    load: Option<(Instant, Arc<LoadMap>)>,
    trouble: Option<Arc<str>>,
    polled: Option<Instant>,
}

#[derive(Clone)]
struct Read {
    overview: Arc<Overview>,
    at: Instant,
}

struct KnownTicks {
    job: JobOverview,
    ticks: Arc<Ticks>,
    at: Instant,
}

impl Feed {
    pub(super) fn new(jobs: Jobs) -> Self {
        Self { jobs, state: Mutex::default(), ticks: Mutex::default() }
    }

    /// The overview, at most a second old, or the last one that could be read. Callers at the same time share one poll.
    pub(super) async fn snapshot(&self, depth: Depth) -> Result<Snapshot, OperateError> {
        let mut state = self.state.lock().await;
        let (known, age) = match depth {
            Depth::Newest => (&state.newest, POLL),
            Depth::All => (&state.deep, DEEP_AGE),
        };
        if let Some(read) = known.as_ref().filter(|read| read.at.elapsed() < age) {
            return Ok(Snapshot { overview: read.overview.clone(), trouble: state.trouble.clone() });
        }
        if let Some(polled) = state.polled {
            sleep_until(polled + POLL).await;
        }
        let overview = match depth {
            Depth::Newest => self.jobs.overview().await,
            Depth::All => self.jobs.overview_with(DEEP_RUNS).await,
        };
        state.polled = Some(Instant::now());
        state.take(depth, overview)
    }

    /// Makes the next request read the store again, because an action has changed it.
    pub(super) async fn invalidate(&self) {
        let mut state = self.state.lock().await;
        let long_ago = Instant::now().checked_sub(DEEP_AGE);
        let FeedState { newest, deep, .. } = &mut *state;
        for read in newest.iter_mut().chain(deep) {
            read.at = long_ago.unwrap_or(read.at);
        }
        drop(state);
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

    pub(super) async fn load_map(&self, overview: &Overview) -> Arc<LoadMap> {
        let mut state = self.state.lock().await;
        match &state.load {
            Some((at, map)) if at.elapsed() < LOAD_AGE => map.clone(),
            _ => {
                let map = Arc::new(overview.load_map());
                state.load = Some((Instant::now(), map.clone()));
                map
            }
        }
    }
}

impl FeedState {
    fn take(
        &mut self,
        depth: Depth,
        overview: Result<Overview, OperateError>,
    ) -> Result<Snapshot, OperateError> {
        match overview {
            Ok(overview) => {
                let read = Read { overview: Arc::new(overview), at: Instant::now() };
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
                read.at = Instant::now();
                Ok(Snapshot { overview: read.overview.clone(), trouble: self.trouble.clone() })
            }
        }
    }
}
