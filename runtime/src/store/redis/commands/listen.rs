//! Subscriptions to keys that may become free, over one connection.

use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_core::Stream;
use redis::aio::PubSubSink;
use redis::{RedisError, RedisResult};
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::script;
use crate::store::net::connection::{Connect, ConnectionFault, SharedConnection};
use crate::store::net::subscriptions::Subscriptions;
use crate::store::net::timeouts::Timeouts;
use crate::store::redis::connection::RedisConnector;
use crate::store::redis::topology::router::Router;
use crate::store::redis::{RedisStore, errors};
use crate::store::{StoreErrorKind, Subscription};

/// Time for which swaps notify the subscribers of a key.
const LISTENING: Duration = Duration::from_secs(60);

/// The connection of all subscriptions. The first opens it, and after an error the next.
pub(crate) type SharedPubSub = SharedConnection<PubSubConnector>;

impl RedisStore {
    /// Subscribes, and marks the key as awaited, so that swaps publish.
    pub(crate) async fn subscribe(&self, key: &str) -> RedisResult<Option<Subscription>> {
        let [_, _, awaited, ..] = self.keys.of_job(key);
        let mut mark = redis::cmd("SET");
        mark.arg(&awaited).arg("").arg("PX").arg(LISTENING.as_millis());
        let (channel, timeouts) = (self.keys.channel(key), self.timeouts);
        let listening = PubSubConnector { route: self.route.clone(), timeouts };
        let listen = |line: Arc<PubSubConnection>| async move {
            timeout(timeouts.response, line.listen(channel)).await.map_err(io::Error::from)?
        };
        let subscribed = tokio::try_join!(
            self.subscriptions.exchange(&listening, listen),
            self.route.exchange(&awaited, |connection, asking| {
                script::send(connection, asking, None, mark.clone())
            }),
        );
        match subscribed {
            Ok((listener, _)) => Ok(Some(listener)),
            // The user may not subscribe: the caller polls.
            Err(error) if errors::kind_of(&error) == StoreErrorKind::Refused => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Opens the connection.
#[derive(Clone)]
pub(crate) struct PubSubConnector {
    route: Router,
    timeouts: Timeouts,
}

impl Connect for PubSubConnector {
    type Connection = Arc<PubSubConnection>;
    type Error = RedisError;

    async fn connect(self) -> RedisResult<Arc<PubSubConnection>> {
        let opening = async { self.route.client().await?.get_async_pubsub().await };
        let opened = timeout(self.timeouts.connect, opening).await.map_err(io::Error::from)??;
        let (commands, heard) = opened.split();
        let subscriptions = Arc::<Subscriptions>::default();
        let line = Arc::downgrade(&subscriptions);
        let reading = tokio::spawn(async move {
            let mut heard = Box::pin(heard);
            while let Some(message) = poll_fn(|polling| heard.as_mut().poll_next(polling)).await {
                subscriptions.notify(message.get_channel_name());
            }
        });
        let (commands, reading) = (Mutex::new(commands), AbortOnDropHandle::new(reading));
        Ok(Arc::new(PubSubConnection { commands, subscriptions: line, _reading: reading }))
    }

    fn abandoned() -> RedisError {
        RedisConnector::abandoned()
    }

    fn fault(error: &RedisError) -> ConnectionFault {
        RedisConnector::fault(error)
    }

    fn is_closed(line: &Arc<PubSubConnection>) -> bool {
        line.subscriptions.strong_count() == 0
    }
}

/// The connection, and the subscriptions of each channel.
pub(crate) struct PubSubConnection {
    /// One command at a time: a channel must not be unsubscribed while the next subscriber subscribes to it.
    commands: Mutex<PubSubSink>,
    subscriptions: Weak<Subscriptions>,
    /// The connection stays open for as long as this task reads from it.
    _reading: AbortOnDropHandle<()>,
}

impl PubSubConnection {
    async fn listen(&self, channel: String) -> RedisResult<Subscription> {
        let mut commands = self.commands.lock().await;
        let subscriptions = self.subscriptions.upgrade().ok_or_else(RedisConnector::abandoned)?;
        let (listener, unheard) = subscriptions.subscribe(channel.clone());
        if !unheard.is_empty() {
            commands.unsubscribe(unheard).await?;
        }
        commands.subscribe(channel).await?;
        Ok(listener)
    }
}
