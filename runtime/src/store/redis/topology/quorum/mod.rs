//! Asks several servers, of which some may be unreachable or outdated, and counts their answers.

use std::collections::HashMap;
use std::hash::Hash;

use redis::RedisResult;
use tokio::task::JoinSet;

/// How many of the servers have to give the same answer.
pub(crate) enum Agreement {
    /// As many as do: a wrong answer is noticed later.
    MostFrequent,
    /// More than half of all, whether they can be reached or not: a wrong answer would do harm.
    Majority,
}

/// Returns the answer of more than half of the servers as soon as there is one, or else the most frequent answer if that is enough.
pub(crate) async fn agree<T, F>(asked: Vec<F>, needed: Agreement) -> Option<RedisResult<T>>
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
    let Some((answer, count)) = votes.into_iter().max_by_key(|(_, count)| *count) else {
        return last_error.map(Err);
    };
    match needed {
        Agreement::MostFrequent => Some(Ok(answer)),
        Agreement::Majority => {
            let why = format!("only {count} of {all} give the same answer, and more than half must");
            Some(Err(std::io::Error::other(why).into()))
        }
    }
}

#[cfg(test)]
mod tests;
