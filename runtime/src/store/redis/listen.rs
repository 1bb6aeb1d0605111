//! Hearing of freed keys, over one connection that all who listen share.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream;
use redis::aio::PubSubSink;
use redis::{RedisError, RedisResult};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::super::Listener;
use super::super::bells::{Bells, Hung};
use super::super::shared::{Blame, Dial, Shared};
use super::super::timeouts::Timeouts;
use super::connection::Server;
use super::way::Door;

/// A store's ear: opened when somebody first listens, and anew after trouble by whoever listens next.
pub(super) struct Ear(Shared<Listening>);

impl Ear {
    pub(super) fn new() -> Self {
        Self(Shared::new())
    }

    /// Hears whatever is published to the channel from now on.
    pub(super) async fn listen(
        &self,
        door: Door,
        timeouts: Timeouts,
        channel: String,
    ) -> RedisResult<Listener> {
        let dial = Listening { door, timeouts };
        self.0
            .exchange(&dial, |line: Arc<Line>| async move { line.listen(channel, timeouts.response).await })
            .await
    }
}

/// How to open the connection.
#[derive(Clone)]
struct Listening {
    door: Door,
    timeouts: Timeouts,
}

impl Dial for Listening {
    type Connection = Arc<Line>;
    type Error = RedisError;

    async fn dial(self) -> RedisResult<Arc<Line>> {
        let opening = async { self.door.client().await?.get_async_pubsub().await };
        let (commands, heard) =
            timeout(self.timeouts.connect, opening).await.map_err(|_| too_late())??.split();
        let bells = Arc::<Bells>::default();
        let hung = Hung(Arc::clone(&bells));
        tokio::spawn(async move {
            let mut heard = Box::pin(heard);
            while let Some(message) = poll_fn(|polling| heard.as_mut().poll_next(polling)).await {
                hung.ring(message.get_channel_name());
            }
        });
        Ok(Arc::new(Line { commands: Mutex::new(commands), bells }))
    }

    fn abandoned() -> RedisError {
        Server::abandoned()
    }

    fn blame(error: &RedisError) -> Blame {
        Server::blame(error)
    }

    fn is_closed(line: &Arc<Line>) -> bool {
        line.bells.are_down()
    }
}

/// The connection, and whom to tell of what comes over it.
struct Line {
    /// One at a time: a channel that nobody listens to any more must not be left by whoever listens to it next.
    commands: Mutex<PubSubSink>,
    bells: Arc<Bells>,
}

impl Line {
    async fn listen(&self, channel: String, patience: Duration) -> RedisResult<Listener> {
        let talk = async {
            let mut commands = self.commands.lock().await;
            let (listener, unheard) = self.bells.hang(channel.clone()).ok_or_else(Server::abandoned)?;
            if !unheard.is_empty() {
                commands.unsubscribe(unheard).await?;
            }
            commands.subscribe(channel).await?;
            Ok(listener)
        };
        timeout(patience, talk).await.unwrap_or_else(|_| Err(too_late()))
    }
}

fn too_late() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}
