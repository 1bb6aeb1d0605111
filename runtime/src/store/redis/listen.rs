//! Subscriptions to keys that may come free, over one connection that all listeners share.

use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_core::Stream;
use redis::aio::PubSubSink;
use redis::{RedisError, RedisResult};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::super::Listener;
use super::super::bells::Bells;
use super::super::shared::{Blame, Dial, Shared};
use super::super::timeouts::Timeouts;
use super::connection::Server;
use super::route::Dialer;

/// The connection of all subscriptions: opened by the first, and after an error by the next.
pub(super) type Subscriptions = Shared<Listening>;

impl Subscriptions {
    /// Subscribes to a channel.
    pub(super) async fn listen(
        &self,
        dialer: Dialer,
        timeouts: Timeouts,
        channel: String,
    ) -> RedisResult<Listener> {
        let talk = |line: Arc<Line>| async move { line.listen(channel, timeouts.response).await };
        self.exchange(&Listening { dialer, timeouts }, talk).await
    }
}

/// How to open the connection.
#[derive(Clone)]
pub(super) struct Listening {
    dialer: Dialer,
    timeouts: Timeouts,
}

impl Dial for Listening {
    type Connection = Arc<Line>;
    type Error = RedisError;

    async fn dial(self) -> RedisResult<Arc<Line>> {
        let opening = async { self.dialer.client().await?.get_async_pubsub().await };
        let (commands, heard) =
            timeout(self.timeouts.connect, opening).await.map_err(|_| too_late())??.split();
        let bells = Arc::<Bells>::default();
        let line = Arc::downgrade(&bells);
        let reading = tokio::spawn(async move {
            let mut heard = Box::pin(heard);
            while let Some(message) = poll_fn(|polling| heard.as_mut().poll_next(polling)).await {
                bells.ring(message.get_channel_name());
            }
        });
        let (commands, reading) = (Mutex::new(commands), AbortOnDropHandle::new(reading));
        Ok(Arc::new(Line { commands, bells: line, _reading: reading }))
    }

    fn abandoned() -> RedisError {
        Server::abandoned()
    }

    fn blame(error: &RedisError) -> Blame {
        Server::blame(error)
    }

    fn is_closed(line: &Arc<Line>) -> bool {
        line.bells.strong_count() == 0
    }
}

/// The connection, and the listeners of each channel.
pub(super) struct Line {
    /// One at a time: a channel without listeners must not be left while the next one subscribes to it.
    commands: Mutex<PubSubSink>,
    bells: Weak<Bells>,
    /// The connection stays open for as long as this task reads from it.
    _reading: AbortOnDropHandle<()>,
}

impl Line {
    async fn listen(&self, channel: String, patience: Duration) -> RedisResult<Listener> {
        let talk = async {
            let mut commands = self.commands.lock().await;
            let bells = self.bells.upgrade().ok_or_else(Server::abandoned)?;
            let (listener, unheard) = bells.hang(channel.clone());
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
