//! The turns of claims of ticks that are due together.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::util::backoff::up_to;

/// The number of claims of a batch that are sent at once, until the first answers arrive.
///
/// When many jobs are due together, a server without a limit reads all their records before any tick is decided, and then races
/// for every tick: one server wins it, and the others have sent a write that is refused. Servers with a limit, each with an order
/// of its own, find most ticks decided, and share the others evenly. The benchmark `redis_store` shows what a tick of ten servers
/// costs.
pub(crate) const AT_FIRST: usize = 16;

/// The number of claims that may be sent after an answer. More than one, so that a batch on a distant store needs few rounds.
const AFTER_AN_ANSWER: usize = 2;

/// The longest wait for answers: a part of the store that does not answer delays no other job by more than this.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// Limits how many claims of one batch are in progress at once.
#[derive(Clone)]
pub(crate) struct ClaimTurns(Arc<Semaphore>);

/// A claim of a batch, until it is answered or given up, when this is dropped.
pub(crate) struct ClaimTurn(Arc<Semaphore>);

impl ClaimTurns {
    pub(crate) fn new(at_first: usize) -> Self {
        Self(Arc::new(Semaphore::new(at_first)))
    }

    /// Waits until enough claims of the batch are answered, for a small part of the tick's grace at most. What ends a claim meanwhile is
    /// noticed after it.
    pub(crate) async fn next(&self, grace: Duration) -> ClaimTurn {
        if let Ok(permit) = self.0.try_acquire() {
            permit.forget();
        } else {
            let longest = LONGEST_WAIT.min(grace / 10);
            // Not all at the same instant: that would be the race that this avoids.
            let wait = longest / 2 + up_to(longest / 2);
            // Boxed: the future of a claim that need not wait stays small.
            if let Ok(Ok(permit)) = Box::pin(timeout(wait, self.0.acquire())).await {
                permit.forget();
            }
        }
        ClaimTurn(self.0.clone())
    }
}

impl Drop for ClaimTurn {
    fn drop(&mut self) {
        self.0.add_permits(AFTER_AN_ANSWER);
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinSet;
    use tokio::time::Instant;

    use super::*;

    const GRACE: Duration = Duration::from_secs(60);

    async fn take(turns: &ClaimTurns, number: usize) -> Vec<ClaimTurn> {
        let mut taken = Vec::new();
        for _ in 0..number {
            taken.push(turns.next(GRACE).await);
        }
        taken
    }

    #[tokio::test(start_paused = true)]
    async fn answer_lets_two_further_claims_begin() {
        let turns = ClaimTurns::new(3);
        let mut answered = take(&turns, 3).await;
        let begun = Instant::now();
        let (further, ()) = tokio::join!(take(&turns, 2), async {
            tokio::time::sleep(Duration::from_millis(30)).await;
            answered.pop();
        });
        assert_eq!(begun.elapsed().as_millis(), 30);
        drop(turns.next(GRACE).await);
        assert!(begun.elapsed().as_millis() >= 80, "the third one waits");
        drop(further);
    }

    #[tokio::test(start_paused = true)]
    async fn claims_without_an_answer_delay_others_by_a_tenth_of_a_second_at_most() {
        let turns = ClaimTurns::new(1);
        let _unanswered = take(&turns, 1).await;
        let begun = Instant::now();
        let mut waiting = JoinSet::new();
        for _ in 0..100 {
            let turns = turns.clone();
            waiting.spawn(async move { std::mem::forget(turns.next(GRACE).await) });
        }
        let mut waited = Vec::new();
        while waiting.join_next().await.is_some() {
            waited.push(begun.elapsed().as_millis());
        }
        assert!(waited.iter().all(|waited| (50..=101).contains(waited)), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn tick_with_a_short_grace_waits_for_a_part_of_it() {
        let turns = ClaimTurns::new(1);
        let _unanswered = take(&turns, 1).await;
        let begun = Instant::now();
        drop(turns.next(Duration::from_millis(100)).await);
        assert!(begun.elapsed().as_millis() <= 11, "{:?}", begun.elapsed());
    }
}
