//! Asks several servers, of which some may be unreachable or outdated, and counts their answers.

use std::collections::HashMap;
use std::hash::Hash;

use redis::RedisResult;
use tokio::task::JoinSet;

/// The decision if two answers are equally frequent.
pub(crate) enum TieBreak {
    /// Either is as good.
    TakeEither,
    /// A wrong one would do harm.
    Refuse,
}

/// Returns the answer of more than half of the servers as soon as there is one, or else the most frequent answer.
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
