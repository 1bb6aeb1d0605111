use super::*;
use std::time::Duration;

/// Who is silent, and who says what after how long.
async fn answers(said: &[Option<(u64, &'static str)>]) -> Option<RedisResult<&'static str>> {
    let asked = said.iter().copied().map(|said| async move {
        match said {
            Some((seconds, word)) => {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Ok(word)
            }
            None => Err(std::io::Error::other("gone").into()),
        }
    });
    agree(asked.collect(), Agreement::Majority).await
}

#[tokio::test(start_paused = true)]
async fn one_quick_answer_does_not_decide() {
    let begun = tokio::time::Instant::now();
    let said = answers(&[Some((0, "old")), Some((1, "new")), Some((2, "new")), Some((3600, "new"))]).await;
    assert_eq!((said.unwrap().unwrap(), begun.elapsed().as_secs()), ("new", 3600));
    let said = answers(&[Some((0, "old")), Some((1, "new")), Some((1, "new"))]).await;
    assert_eq!(said.unwrap().unwrap(), "new");
}

#[tokio::test(start_paused = true)]
async fn slow_answers_are_not_waited_for_once_most_agree() {
    let begun = tokio::time::Instant::now();
    let said = answers(&[Some((3600, "new")), Some((1, "new")), Some((1, "new"))]).await;
    assert_eq!((said.unwrap().unwrap(), begun.elapsed().as_secs()), ("new", 1));
}

/// One of three may be cut off together with the former master and the servers that reach it.
#[tokio::test(start_paused = true)]
async fn minority_is_not_believed_even_if_no_other_answers() {
    let said = answers(&[None, Some((1, "old")), None]).await.unwrap();
    assert!(said.unwrap_err().to_string().contains("only 1 of 3 give the same answer"));
    assert_eq!(answers(&[None, Some((1, "new")), Some((1, "new"))]).await.unwrap().unwrap(), "new");
    assert_eq!(answers(&[Some((1, "new"))]).await.unwrap().unwrap(), "new");
    assert!(answers(&[None, None]).await.unwrap().is_err());
    assert!(answers(&[]).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn most_frequent_answer_counts_where_a_wrong_one_does_no_harm() {
    let answer =
        |word: Option<&'static str>| async move { word.ok_or_else(|| std::io::Error::other("gone").into()) };
    let asked = [None, Some("new"), None].map(answer).into_iter().collect();
    assert_eq!(agree(asked, Agreement::MostFrequent).await.unwrap().unwrap(), "new");
}

/// One sentinel was cut off together with the former master, and another one is down.
#[tokio::test(start_paused = true)]
async fn two_who_differ_are_not_decided_between_by_chance() {
    for _ in 0..50 {
        let said = answers(&[Some((0, "old")), Some((1, "new")), None]).await.unwrap();
        assert!(said.is_err(), "believed {said:?}");
    }
}
