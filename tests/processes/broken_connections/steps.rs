//! One step at a time, repeated as a server does: the same message until there is an answer. Each step is a look and a
//! swap, and the faults strike at either.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobs::Timestamp;
use jobs::events::Taken;
use jobs::history::RunOutcome;
use jobs::store::{Claim, ClaimDecision, ExtendReply, Lease, ReleaseReply, StoreError};
use jobs::testing::store::{Client, Timestamped};

use super::site::{Kind, Site};
use support::bench::{LONG, ask, claim, claim_now, claim_with, ending};
use support::proxy::Fault;

const KEY: &str = "import-products";
/// Room for every repetition of a step.
const TTL: Duration = Duration::from_secs(20);
/// For those who wait until it is over.
const SHORT_TTL: Duration = Duration::from_secs(1);
/// How much later a busy machine may notice.
const SLACK: Duration = Duration::from_secs(4);
/// So many cases at once: most of them wait.
const AT_ONCE: usize = 33;

/// What is wrong, in words.
pub type Wrong = String;

macro_rules! ensure {
    ($so:expr, $($words:tt)+) => { if !$so { return Err(format!($($words)+)); } };
}

/// What became of all cases.
#[derive(Debug, Default)]
pub struct Tally {
    pub cases: usize,
    pub wrong: Vec<(Fault, usize, Wrong)>,
    /// How many steps failed before one was answered, by fault.
    errors: BTreeMap<String, usize>,
}

/// Does the same thing in peace, to count its turns, and once for every fault at every turn. Behind a pooler there are fewer of
/// them once its sessions know the statements.
pub async fn every_fault_at_every_position<F>(kind: Kind, case: impl Fn(Arc<Site>) -> F) -> Tally
where
    F: Future<Output = Result<usize, Wrong>> + Send + 'static,
{
    let mut turns = usize::MAX;
    for _ in 0..4 {
        let peaceful = Arc::new(Site::peaceful(kind).await);
        let errors = case(Arc::clone(&peaceful)).await.expect("nothing is broken");
        assert_eq!(errors, 0, "nothing is broken");
        turns = turns.min(peaceful.proxy.answers());
    }
    assert!(turns >= 2, "a connection is set up, and a step taken: {turns} turns");

    let mut positions = (1..=turns).flat_map(|turn| Fault::ALL.map(|fault| (fault, turn)));
    let mut tally = Tally::default();
    let mut cases = tokio::task::JoinSet::new();
    loop {
        while cases.len() < AT_ONCE {
            let Some((fault, turn)) = positions.next() else { break };
            let site = Arc::new(Site::new(kind).await);
            site.proxy.strike(&[(fault, turn)]);
            let done = case(Arc::clone(&site));
            cases.spawn(async move { (fault, turn, done.await, site) });
        }
        let Some(ended) = cases.join_next().await else { break };
        let (fault, turn, result, site) = ended.expect("no panic");
        tally.cases += 1;
        let result = result.and_then(|errors| match site.proxy.struck() {
            Some(_) => Ok(errors),
            None => Err("the fault did not happen".to_owned()),
        });
        match result {
            Ok(errors) => *tally.errors.entry(format!("{fault:?}")).or_default() += errors,
            Err(wrong) => tally.wrong.push((fault, turn, wrong)),
        }
    }
    println!("{kind:?}: {turns} turns, {} cases, errors by fault: {:?}", tally.cases, tally.errors);
    tally
}

impl Tally {
    /// Nothing went wrong, although every fault was felt.
    fn is_clean(&self) {
        assert!(self.wrong.is_empty(), "{:#?}", self.wrong);
        for fault in Fault::ALL {
            // The server may answer before it notices that its client said goodbye.
            let felt = self.errors.get(&format!("{fault:?}")).is_some_and(|errors| *errors > 0);
            assert!(felt || fault == Fault::ClosedBehindRequest, "{fault:?} does no harm: {self:?}");
        }
    }
}

/// Makes the tables and functions on the way, on PostgreSQL.
pub async fn the_first_claim_of_all_survives_every_fault_at_every_position(kind: Kind) {
    every_fault_at_every_position(kind, |site| claim_case(site, true)).await.is_clean();
}

/// Takes a step until it is answered. Returns the answer, and how often there was none.
pub async fn repeat<T, F>(mut step: impl FnMut(usize) -> F) -> Result<(T, usize), Wrong>
where
    F: Future<Output = Result<Timestamped<T>, StoreError>>,
{
    let give_up = Instant::now() + LONG;
    let mut errors = 0;
    loop {
        match step(errors).await {
            Ok(answer) => return Ok((answer.reply, errors)),
            Err(error) if Instant::now() > give_up => return Err(format!("no answer at all: {error}")),
            Err(_) => errors += 1,
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn win(store: &Client, claim: &Claim) -> Result<Lease, Wrong> {
    match store.claim(KEY, claim).await.expect("the way around is not broken").reply.decision {
        ClaimDecision::Won(won) => Ok(won.lease),
        other => Err(format!("a claim around the proxy did not win: {other:?}")),
    }
}

/// The lease's run has ended: the key is free at once, whatever of it is still under way harms no successor, and
/// there is one record.
async fn is_over(site: &Site, around: &Client, over: &Lease) -> Result<(), Wrong> {
    let next = win(around, &claim_now("next", TTL)).await?;
    ensure!(next.fence > over.fence, "the fence did not grow: {} then {}", over.fence, next.fence);
    site.proxy.settle().await;
    // What has arrived now may still have to be carried out.
    tokio::time::sleep(Duration::from_millis(30)).await;
    let kept = around.extend(KEY, &next).await.expect("around").reply;
    ensure!(matches!(kept, ExtendReply::Kept { .. }), "the successor lost its lease: {kept:?}");
    let released = around.release(KEY, &next, &ending(RunOutcome::Succeeded)).await.expect("around").reply;
    ensure!(released == ReleaseReply::Released, "the successor could not release: {released:?}");
    let last = win(around, &claim_now("last", TTL)).await?;
    around.release(KEY, &last, &ending(RunOutcome::Succeeded)).await.expect("around");
    let history = around.history(KEY).await.expect("around").reply;
    let records = history.runs.iter().filter(|run| run.fence == over.fence).count();
    ensure!(records == 1, "{records} records of one run: {:?}", history.runs);
    ensure!(history.stats.runs == 3, "{} runs were counted, not 3", history.stats.runs);
    Ok(())
}

/// A claim by a client that repeats it with the same token, or each time with another one.
pub async fn claim_case(site: Arc<Site>, same_token: bool) -> Result<usize, Wrong> {
    let (around, through) = (site.around(), site.through());
    let tick = Timestamp::now();
    let claims: Vec<_> = (0..100).map(|_| claim_with("a", TTL, ask(tick))).collect();
    let nth = |errors: usize| &claims[if same_token { 0 } else { errors }];
    let (verdict, errors) = repeat(|errors| through.claim(KEY, nth(errors))).await?;
    let ClaimDecision::Won(won) = verdict.decision else {
        let current = around.history(KEY).await.expect("around").reply.current;
        return Err(format!("nobody else asks, but: {:?}; the store shows {current:?}", verdict.decision));
    };
    let held = won.lease;

    let late = around.claim(KEY, &claim("late", tick)).await.expect("around").reply.decision;
    let taken = matches!(&late, ClaimDecision::Taken(Taken::Started { server, .. }) if server == "a");
    ensure!(taken, "another server is not told that the tick is taken: {late:?}");
    let current = around.history(KEY).await.expect("around").reply.current;
    let fence = current.map(|run| run.fence);
    ensure!(fence == Some(held.fence), "the store shows {fence:?}, and {} was won", held.fence);
    let released = around.release(KEY, &held, &ending(RunOutcome::Succeeded)).await.expect("around").reply;
    ensure!(released == ReleaseReply::Released, "what was won could not be released: {released:?}");
    is_over(&site, &around, &held).await?;
    Ok(errors)
}

pub async fn a_claim_survives_every_fault_at_every_position(kind: Kind) {
    every_fault_at_every_position(kind, |site| claim_case(site, true)).await.is_clean();
}

pub async fn an_extension_survives_every_fault_at_every_position(kind: Kind) {
    let tally = every_fault_at_every_position(kind, async |site: Arc<Site>| {
        let (around, through) = (site.around(), site.through());
        let mut held = win(&around, &claim_with("a", TTL, ask(Timestamp::now()))).await?;
        tokio::time::sleep(Duration::from_millis(3)).await;
        let (reply, errors) = repeat(|_| through.extend(KEY, &held)).await?;
        let ExtendReply::Kept { until, .. } = reply else { return Err(format!("not kept: {reply:?}")) };
        ensure!(until > held.until, "not extended: {} then {until}", held.until);
        held.until = until;
        let stranger = around.claim(KEY, &claim_now("b", TTL)).await.expect("around").reply.decision;
        let ClaimDecision::Held(holder) = stranger else { return Err(format!("not held: {stranger:?}")) };
        let rest = holder.remaining.unwrap_or(Duration::MAX);
        ensure!(rest <= TTL + Duration::from_millis(1), "held for {rest:?}");
        let released =
            around.release(KEY, &held, &ending(RunOutcome::Succeeded)).await.expect("around").reply;
        ensure!(released == ReleaseReply::Released, "what was kept could not be released: {released:?}");
        is_over(&site, &around, &held).await?;
        Ok(errors)
    });
    tally.await.is_clean();
}

pub async fn a_release_survives_every_fault_at_every_position(kind: Kind) {
    let tally = every_fault_at_every_position(kind, async |site: Arc<Site>| {
        let (around, through) = (site.around(), site.through());
        let held = win(&around, &claim_with("a", TTL, ask(Timestamp::now()))).await?;
        let end = ending(RunOutcome::Succeeded);
        let (reply, errors) = repeat(|_| through.release(KEY, &held, &end)).await?;
        // Whoever has to ask again may have released before.
        let fine = reply == ReleaseReply::Released || (errors > 0 && reply == ReleaseReply::NotHeld);
        ensure!(fine, "not released: {reply:?} after {errors} errors");
        is_over(&site, &around, &held).await?;
        Ok(errors)
    });
    tally.await.is_clean();
}

/// Its server is gone, whether it has won or not.
pub async fn abandoned_claim_holds_the_key_no_longer_than_its_ttl(kind: Kind) {
    let tally = every_fault_at_every_position(kind, async |site: Arc<Site>| {
        let (around, through) = (site.around(), site.through());
        let claim = claim_with("a", SHORT_TTL, ask(Timestamp::now()));
        let mut errors = 0;
        while through.claim(KEY, &claim).await.is_err() {
            errors += 1;
            // On a busy machine it may have given up for less.
            if site.proxy.struck().is_some() {
                break;
            }
        }
        drop(through);
        site.proxy.settle().await;
        let applied = Instant::now();
        let next = claim_now("next", TTL);
        while let Err(wrong) = win(&around, &next).await {
            let held = applied.elapsed();
            ensure!(held < SHORT_TTL + SLACK, "held for {held:?}, with a ttl of {SHORT_TTL:?}: {wrong}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(errors)
    });
    tally.await.is_clean();
}
