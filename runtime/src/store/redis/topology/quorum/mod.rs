//! One question to several servers, of which some may be gone or not know the newest.

use std::collections::HashMap;
use std::hash::Hash;

use redis::RedisResult;
use tokio::task::JoinSet;

/// What to do if two answers are given equally often.
pub(crate) enum TieBreak {
    /// Either is as good.
    TakeEither,
    /// A wrong one would do harm.
    Refuse,
}

/// What most of them say, as soon as more than half say the same; else what is said most often once all have spoken.
pub(crate) async fn agree<T, F>(asked: Vec<F>, tie: TieBreak) -> Option<RedisResult<T>>
where
    T: Clone + Eq + Hash + Send + 'static,
    F: Future<Output = RedisResult<T>> + Send + 'static,
{
    let all = asked.len();
    let mut answers: JoinSet<_> = asked.into_iter().collect();
    let mut votes = HashMap::<T, usize>::new();
    let mut last_error = None;
    while let Some(answer) = answers.join_next().await {
        match answer {
            Ok(Ok(answer)) => {
                let count = votes.entry(answer.clone()).or_default();
                *count += 1;
                if *count * 2 > all {
                    return Some(Ok(answer));
                }
            }
            Ok(Err(error)) => last_error = Some(error),
            Err(_) => {}
        }
    }
    let Some(most) = votes.values().max().copied() else { return last_error.map(Err) };
    let mut most_named = votes.into_iter().filter(|(_, count)| *count == most).map(|(answer, _)| answer);
    match (most_named.next(), most_named.next(), tie) {
        (_, Some(_), TieBreak::Refuse) => {
            Some(Err(std::io::Error::other("those who answer disagree").into()))
        }
        (first, ..) => first.map(Ok),
    }
}

#[cfg(test)]
mod tests;
