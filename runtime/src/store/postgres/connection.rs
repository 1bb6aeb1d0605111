//! How a store's steps reach the server: over one connection of its own, or over those that it is lent.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Notification, Socket};

use super::super::StoreErrorKind;
use super::super::shared::{Blame, Dial, Shared};
use super::super::timeouts::Timeouts;
use super::encryption::Encryption;
use super::source::{Loan, Open, Source};
use super::trouble::Trouble;

pub(super) struct Connection {
    way: Way,
    connect: Duration,
    response: Duration,
}

enum Way {
    /// All steps go over one connection; the server takes them one after the other.
    Own {
        config: Arc<Config>,
        encryption: Encryption,
        shared: Shared<Server>,
    },
    Lent(Box<dyn Source>),
}

impl Connection {
    pub(super) fn new(config: Config, encryption: Encryption, timeouts: Timeouts) -> Self {
        Self::over(Way::Own { config: Arc::new(config), encryption, shared: Shared::new() }, timeouts)
    }

    pub(super) fn lent_by(source: impl Source) -> Self {
        Self::over(Way::Lent(Box::new(source)), Timeouts::default())
    }

    fn over(way: Way, Timeouts { connect, response }: Timeouts) -> Self {
        Self { way, connect, response }
    }

    pub(super) fn with_timeouts(mut self, connect: Duration, response: Duration) -> Self {
        (self.connect, self.response) = (connect, response);
        if let Way::Own { config, .. } = &mut self.way {
            Arc::make_mut(config).connect_timeout(connect);
        }
        self
    }

    /// How to open another one; `None` if all are lent.
    pub(super) fn server(&self) -> Option<Server> {
        match &self.way {
            Way::Own { config, encryption, .. } => {
                let (config, encryption) = (Arc::clone(config), encryption.clone());
                Some(Server { config, encryption, patience: self.connect })
            }
            Way::Lent(_) => None,
        }
    }

    /// How long the answer to a step may take.
    pub(super) fn response(&self) -> Duration {
        self.response
    }

    /// Runs one exchange, for which the server has this long once the connection is open.
    pub(super) async fn exchange<T, F>(
        &self,
        patience: Duration,
        talk: impl FnOnce(Open) -> F,
    ) -> Result<T, Trouble>
    where
        F: Future<Output = Result<T, Trouble>>,
    {
        let talk = |client| async move {
            match tokio::time::timeout(patience, talk(client)).await {
                Ok(result) => result,
                // It may have been applied, or be applied later.
                Err(_) => Err(Trouble::timed_out("no answer", patience)),
            }
        };
        match &self.way {
            Way::Own { config, encryption, shared } => {
                let (config, encryption) = (Arc::clone(config), encryption.clone());
                let dial = Server { config, encryption, patience: self.connect };
                shared.exchange(&dial, |client| talk(Open::Own(client))).await
            }
            Way::Lent(source) => {
                let loan = borrow(source.as_ref(), self.connect).await?;
                let result = talk(Open::Lent(Arc::clone(&loan))).await;
                if result.as_ref().err().is_none_or(|trouble| trouble.blame() == Blame::None) {
                    loan.is_idle_again();
                }
                result
            }
        }
    }
}

async fn borrow(source: &dyn Source, patience: Duration) -> Result<Arc<Loan>, Trouble> {
    match tokio::time::timeout(patience, source.connect()).await {
        Ok(Ok(session)) => Ok(Loan::new(session)),
        Ok(Err(error)) => Err(Trouble::from(error)),
        Err(_) => Err(Trouble::timed_out("no connection was lent", patience).advising(
            "all of them are in use, or no new one can be opened; make the pool larger, or give the jobs one of their \
             own",
        )),
    }
}

#[derive(Clone)]
pub(super) struct Server {
    config: Arc<Config>,
    encryption: Encryption,
    patience: Duration,
}

impl Server {
    /// Opens a connection, and passes on what the server tells without being asked. The way to do so is dropped when the
    /// connection ends.
    pub(super) async fn open(
        &self,
        pass_on: impl FnMut(Notification) + Send + 'static,
    ) -> Result<Client, Trouble> {
        match &self.encryption {
            None => self.open_by(NoTls, pass_on).await,
            #[cfg(feature = "tls")]
            Some(tls) => self.open_by(tls.clone(), pass_on).await,
            #[cfg(not(feature = "tls"))]
            Some(never) => match *never {},
        }
    }

    async fn open_by<T: MakeTlsConnect<Socket, Stream: Send + 'static>>(
        &self,
        tls: T,
        mut pass_on: impl FnMut(Notification) + Send + 'static,
    ) -> Result<Client, Trouble> {
        let connecting = tokio::time::timeout(self.patience, self.config.connect(tls));
        let Ok(connected) = connecting.await else {
            return Err(Trouble::timed_out("no connection", self.patience)
                .advising("check host and port, and that no firewall is between"));
        };
        let (client, mut connection) = connected.map_err(|error| Trouble::from(&error))?;
        // Whoever waits for an answer is told of the connection's end.
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    pass_on(notification);
                }
            }
        });
        Ok(client)
    }
}

impl Dial for Server {
    type Connection = Arc<Client>;
    type Error = Trouble;

    async fn dial(self) -> Result<Arc<Client>, Trouble> {
        self.open(drop).await.map(Arc::new)
    }

    fn abandoned() -> Trouble {
        Trouble::new(StoreErrorKind::Unreachable, "the connection was given up before it was open")
    }

    fn blame(trouble: &Trouble) -> Blame {
        trouble.blame()
    }

    fn is_closed(client: &Arc<Client>) -> bool {
        client.is_closed()
    }
}
