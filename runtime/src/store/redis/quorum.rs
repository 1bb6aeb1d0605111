//! One question to several servers, of which some may be gone or not know the newest.

use std::collections::HashMap;
use std::hash::Hash;

use redis::RedisResult;
use tokio::task::JoinSet;

/// What most of them say, as soon as more than half say the same; else what is said most often once all have spoken.
pub(super) async fn agree<T, F>(asked: Vec<F>) -> Option<RedisResult<T>>
where
    T: Clone + Eq + Hash + Send + 'static,
    F: Future<Output = RedisResult<T>> + Send + 'static,
{
    let all = asked.len();
    let mut answers: JoinSet<_> = asked.into_iter().collect();
    let mut votes = HashMap::<T, usize>::new();
    let mut trouble = None;
    while let Some(answer) = answers.join_next().await {
        match answer {
            Ok(Ok(answer)) => {
                let count = votes.entry(answer.clone()).or_default();
                *count += 1;
                if *count * 2 > all {
                    return Some(Ok(answer));
                }
            }
            Ok(Err(error)) => trouble = Some(error),
            Err(_) => {}
        }
    }
    let most = votes.into_iter().max_by_key(|(_, count)| *count).map(|(answer, _)| Ok(answer));
    most.or(trouble.map(Err))
}

#[cfg(test)]
mod tests;
