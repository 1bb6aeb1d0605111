//! Fences: they grow, and the store computes them.

use std::time::Duration;

use crate::store::{FenceChange, Swap, SwapReply};
use crate::util::random;

use super::super::Subject;
use super::super::test_key::{TestKey, deletion, from, numbered, with_fence};

pub(super) async fn next_fence_grows_and_is_at_least_the_clock(subject: &Subject) {
    let key = TestKey::of(subject);
    let mut last = 0;
    for number in 0..20 {
        let look = key.look().await;
        // The clock at the swap counts, not the one at the look.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let swapped = key.applied(&from(&look, with_fence(FenceChange::Next, numbered(number)))).await;
        assert!(swapped.fence > last, "{} is not above {last}", swapped.fence);
        assert!(swapped.fence >= swapped.now.as_micros(), "{swapped:?}");
        assert_eq!(key.look().await.fence, swapped.fence);
        last = swapped.fence;
    }
}

pub(super) async fn fence_is_kept_unless_the_swap_changes_it(subject: &Subject) {
    let key = TestKey::of(subject);
    assert_eq!(key.write(numbered(0)).await.fence, 0);
    let fence = key.write(with_fence(FenceChange::Next, numbered(1))).await.fence;
    for number in 2..4 {
        assert_eq!(key.write(numbered(number)).await.fence, fence);
        assert_eq!(key.look().await.fence, fence);
    }
}

pub(super) async fn fence_is_raised_to_at_least_a_number_and_never_lowered(subject: &Subject) {
    let key = TestKey::of(subject);
    // As of a lease that was won while the store's clock was an hour ahead.
    let ahead = (key.look().await.now + Duration::from_secs(3_600)).as_micros();
    let changes = [
        (FenceChange::AtLeast(5), 5),
        (FenceChange::AtLeast(3), 5),
        (FenceChange::AtLeast(ahead), ahead),
        (FenceChange::AtLeast(ahead - 1), ahead),
        (FenceChange::AtLeast(0), ahead),
        (FenceChange::Keep, ahead),
        (FenceChange::Next, ahead + 1),
        (FenceChange::AtLeast(ahead + 1), ahead + 1),
        (FenceChange::Next, ahead + 2),
    ];
    for (number, (fence, expected)) in (0..).zip(changes) {
        assert_eq!(key.write(with_fence(fence, numbered(number))).await.fence, expected, "{fence:?}");
        assert_eq!(key.look().await.fence, expected, "{fence:?}");
    }
}

pub(super) async fn fence_of_a_new_record_is_above_that_of_a_deleted_one(subject: &Subject) {
    let key = TestKey::of(subject);
    let mut last = 0;
    for number in 0..10 {
        let fence = key.write(with_fence(FenceChange::Next, numbered(number))).await.fence;
        assert!(fence > last, "{fence} is not above {last}");
        last = fence;
        key.write(deletion()).await;
    }
}

/// A deleted record keeps no fence, so that of the next one rests on the clock: it must be read after the deletion.
pub(super) async fn fences_grow_over_concurrent_deletions_and_creations(subject: &Subject) {
    let key = TestKey::of(subject);
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let key = key.clone();
        writers.spawn(async move {
            let mut won = Vec::new();
            while won.len() < 5 {
                let change = with_fence(FenceChange::Next, numbered(1));
                let creation = Swap { expected: None, expected_lock: None, nonce: random(), change };
                if let SwapReply::Swapped(swapped) = key.swap(&creation).await {
                    won.push((swapped.version.at, swapped.fence));
                    let (expected, nonce) = (Some(swapped.version), random());
                    let deletion = Swap { expected, nonce, change: deletion(), ..creation };
                    key.swap(&deletion).await;
                }
            }
            won
        });
    }
    let mut won: Vec<_> = writers.join_all().await.into_iter().flatten().collect();
    won.sort_unstable();
    assert!(won.windows(2).all(|pair| pair[0].1 < pair[1].1), "not in the order of the swaps: {won:?}");
}

/// Of concurrent winners of a lease, the fences are in the order of the swaps.
pub(super) async fn fences_of_concurrent_swaps_are_all_different(subject: &Subject) {
    let key = TestKey::of(subject);
    key.write(numbered(0)).await;
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let key = key.clone();
        writers.spawn(async move {
            let mut won = Vec::new();
            while won.len() < 5 {
                let look = key.look().await;
                let swap: Swap = from(&look, with_fence(FenceChange::Next, numbered(1)));
                if let SwapReply::Swapped(swapped) = key.swap(&swap).await {
                    won.push((swapped.version, swapped.fence));
                }
            }
            won
        });
    }
    let mut won: Vec<_> = writers.join_all().await.into_iter().flatten().collect();
    won.sort_by_key(|(_, fence)| *fence);
    assert!(won.windows(2).all(|pair| pair[0].1 < pair[1].1), "{won:?}");
    assert!(
        won.windows(2).all(|pair| pair[0].0.at <= pair[1].0.at),
        "not in the order of the swaps: {won:?}"
    );
}
