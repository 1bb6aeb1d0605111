//! Locked functions of every kind: methods, generic functions, patterns.

use std::fmt::Display;

use jobs::locks::NotRun;
use jobs::{Run, locked};

use super::kit::server;

struct Shop {
    shard: u8,
    sold: u32,
}

struct Order {
    id: u64,
    lines: (String, u32),
}

/// The key of the current run.
fn key() -> String {
    Run::current().unwrap().key().to_owned()
}

impl Shop {
    #[locked(key = "shop:{self.shard}:{order.id}")]
    async fn look(&self, order: &Order) -> String {
        key()
    }

    #[locked(key = "shop:{self.shard}")]
    async fn sell(&mut self, count: u32) -> Result<u32, std::num::TryFromIntError> {
        tokio::task::yield_now().await;
        self.sold += u32::try_from(i64::from(count))?;
        Ok(self.sold)
    }

    #[locked(key = "shop:{self.shard}/close")]
    async fn close(self) -> (String, u32) {
        (key(), self.sold)
    }

    #[locked(key = "shop/{shard}")]
    async fn open(shard: u8) -> Self {
        Self { shard, sold: 0 }
    }

    #[locked(key = "shop:name")]
    async fn longest<'a>(&self, one: &'a str, two: &'a str) -> &'a str {
        if one.len() > two.len() {
            return one;
        }
        two
    }
}

#[locked(key = "generic:{id}:{name}")]
async fn generic<T>(id: T, name: impl Display, mut list: Vec<T>) -> (String, Vec<T>)
where
    T: Display + Clone,
{
    list.push(id.clone());
    (key(), list)
}

#[locked(key = "patterns:{a}:{id}:{lines.1}")]
async fn patterns((a, _): (u8, u8), Order { id, lines }: Order) -> String {
    format!("{} {}", key(), lines.0)
}

#[locked(key = "raw:{type}")]
async fn raw(r#type: u8) -> Box<dyn Display> {
    Box::new(format!("{} {}", key(), r#type))
}

trait Import {
    async fn import(&self, supplier: &str) -> Result<String, NotRun>;
}

impl Import for Shop {
    #[locked(key = "import:{supplier}")]
    async fn import(&self, supplier: &str) -> String {
        format!("{} into {}", key(), self.shard)
    }
}

#[tokio::test]
async fn methods_can_use_self_in_their_keys() {
    let jobs = server("methods").await;
    jobs.scope(async {
        let mut shop = Shop::open(3).await.unwrap();
        let order = Order { id: 7, lines: ("tea".to_owned(), 2) };
        assert_eq!(shop.look(&order).await.unwrap(), "shop:3:7");
        assert_eq!(shop.sell(2).await.ok(), Some(Ok(2)));
        assert_eq!(shop.sell(3).await.ok(), Some(Ok(5)));
        assert_eq!(shop.longest("tea", "cups").await.ok(), Some("cups"));
        assert_eq!(shop.import("acme inc.").await.unwrap(), "import:acme.20inc.. into 3");
        assert_eq!(shop.close().await.unwrap(), ("shop:3/close".to_owned(), 5));
    })
    .await;
}

#[tokio::test]
async fn generic_functions_patterns_and_raw_identifiers_can_be_locked() {
    let jobs = server("generics").await;
    jobs.scope(async {
        let (key, list) = generic(7, "x:y", vec![1]).await.unwrap();
        assert_eq!((key.as_str(), list), ("generic:7:x.3Ay", vec![1, 7]));
        let order = Order { id: 7, lines: ("tea".to_owned(), 2) };
        assert_eq!(patterns((1, 2), order).await.unwrap(), "patterns:1:7:2 tea");
        assert_eq!(raw(9).await.unwrap().to_string(), "raw:9 9");
    })
    .await;
}

#[tokio::test]
async fn future_of_a_locked_call_is_send() {
    let jobs = server("threads").await;
    let mut shop = Shop { shard: 1, sold: 0 };
    let task = tokio::spawn(async move {
        jobs.scope(async {
            let sold = shop.sell(4).await;
            let name = shop.longest("a", "b").await;
            assert_eq!(name.ok(), Some("b"));
            let (key, _) = generic(1_u8, "n", Vec::new()).await.unwrap();
            (sold.ok(), key)
        })
        .await
    });
    assert_eq!(task.await.unwrap(), (Some(Ok(4)), "generic:1:n".to_owned()));
}

#[test]
fn size_of_the_body_does_not_change_the_size_of_the_future() {
    #[locked(key = "array")]
    async fn array<const SIZE: usize>() -> u8 {
        let array = [7; SIZE];
        tokio::task::yield_now().await;
        array[SIZE - 1]
    }

    assert_eq!(size_of_val(&array::<8_000>()), size_of_val(&array::<1>()));
}

#[tokio::test]
async fn question_mark_in_a_locked_function_returns_from_the_function_only() {
    #[locked(key = "question")]
    async fn question(text: &str) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
        let number: u32 = text.parse()?;
        if number == 0 {
            return Err("zero".into());
        }
        Ok(number)
    }

    async fn twice(text: &str) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
        Ok(question(text).await?? * 2)
    }

    let jobs = server("question").await;
    jobs.scope(async {
        assert_eq!(twice("4").await.unwrap(), 8);
        assert_eq!(twice("0").await.unwrap_err().to_string(), "zero");
        assert_eq!(twice("x").await.unwrap_err().to_string(), "invalid digit found in string");
    })
    .await;
}
