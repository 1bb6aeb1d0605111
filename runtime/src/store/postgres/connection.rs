//! How statements reach the server: over one connection of the store's own, or over those that it is lent.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client, Config};

use super::super::bells::Bells;
use super::super::shared::{Blame, Dial, Shared};
use super::super::timeouts::Timeouts;
use super::super::{Listener, StoreErrorKind};
use super::encryption::Encryption;
use super::prepared::Preparation;
use super::source::{Session, Source};
use super::trouble::Trouble;

/// The channel of all notifications. Each names its schema, namespace and key.
const LISTEN: &str = "LISTEN jobs_freed";

/// A statement that has not been answered for so long probably waits for another session.
const LONG: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(super) struct Connection {
    way: Way,
    connect: Duration,
    /// How long the answer to a statement may take.
    pub(super) response: Duration,
}

#[derive(Clone)]
enum Way {
    Own {
        server: Server,
        /// All statements go over one connection; the server takes them one after the other.
        shared: Arc<Shared<Server>>,
        /// All subscriptions share another one, which is opened by the first of them.
        listening: Arc<Shared<Server>>,
    },
    Lent(Arc<dyn Source>),
}

impl Connection {
    pub(super) fn new(config: Config, encryption: Encryption, timeouts: Timeouts) -> Self {
        let Timeouts { connect, response } = timeouts;
        let server = Server { config: Arc::new(config), encryption, patience: connect };
        let [shared, listening] = [(); 2].map(|()| Arc::new(Shared::new()));
        Self { way: Way::Own { server, shared, listening }, connect, response }
    }

    pub(super) fn lent_by(source: impl Source) -> Self {
        let Timeouts { connect, response } = Timeouts::default();
        Self { way: Way::Lent(Arc::new(source)), connect, response }
    }

    pub(super) fn with_timeouts(mut self, connect: Duration, response: Duration) -> Self {
        (self.connect, self.response) = (connect, response);
        if let Way::Own { server, .. } = &mut self.way {
            Arc::make_mut(&mut server.config).connect_timeout(connect);
            server.patience = connect;
        }
        self
    }

    /// Runs one exchange, for which the server has this long once the connection is open.
    pub(super) async fn exchange<T, F>(
        &self,
        patience: Duration,
        talk: impl FnOnce(Arc<Line>) -> F,
    ) -> Result<T, Trouble>
    where
        F: Future<Output = Result<T, Trouble>>,
    {
        let talk = |line: Arc<Line>| async move {
            let mut sent = Sent::over(&line);
            let result = in_time(patience, talk(line)).await;
            sent.blame = result.as_ref().err().map_or(Blame::None, Trouble::blame);
            result
        };
        match &self.way {
            Way::Own { server, shared, .. } => shared.exchange(server, talk).await,
            Way::Lent(source) => talk(borrow(source.as_ref(), self.connect).await?).await,
        }
    }

    /// Subscribes to a payload, from now on.
    ///
    /// `None` if the store has no connection of its own: one that is lent has to be given back.
    pub(super) async fn listen(&self, payload: String) -> Result<Option<Listener>, Trouble> {
        let Way::Own { server, listening, .. } = &self.way else { return Ok(None) };
        let talk = |line: Arc<Line>| async move {
            // It can be repeated, and shows that the server still answers.
            let confirmed = async { line.client().batch_execute(LISTEN).await.map_err(Trouble::from) };
            in_time(self.response, confirmed).await?;
            let ended = || Trouble::new(StoreErrorKind::Unreachable, "the connection that listens has ended");
            Ok(line.bells.upgrade().ok_or_else(ended)?.hang(payload).0)
        };
        listening.exchange(server, talk).await.map(Some)
    }
}

async fn in_time<T>(
    patience: Duration,
    talk: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    // What is not answered may have been applied, or be applied later.
    timeout(patience, talk).await.unwrap_or_else(|_| Err(Trouble::timed_out("no answer", patience)))
}

async fn borrow(source: &dyn Source, patience: Duration) -> Result<Arc<Line>, Trouble> {
    match timeout(patience, source.connect()).await {
        Ok(Ok(session)) => Ok(Line::new(session, Weak::new(), None)),
        Ok(Err(error)) => Err(Trouble::from(error)),
        Err(_) => Err(Trouble::timed_out("no connection was lent", patience).advising(
            "all of them are in use, or no new one can be opened; make the pool larger, or give the jobs one of their \
             own",
        )),
    }
}

/// A connection that is open.
pub(super) struct Line {
    /// There until it is dropped.
    session: Option<Box<dyn Session>>,
    /// Those to notify of what comes over it.
    bells: Weak<Bells>,
    /// Where it leads, if it is the store's own.
    server: Option<Server>,
    preparation: Preparation,
    answers: AtomicU64,
    is_broken: AtomicBool,
    is_cancelled: AtomicBool,
}

impl Line {
    fn new(session: Box<dyn Session>, bells: Weak<Bells>, server: Option<Server>) -> Arc<Self> {
        Arc::new(Self {
            session: Some(session),
            bells,
            server,
            preparation: Preparation::default(),
            answers: AtomicU64::new(0),
            is_broken: AtomicBool::new(false),
            is_cancelled: AtomicBool::new(false),
        })
    }

    /// Nothing is left in a session that is lent.
    pub(super) fn preparation(&self) -> Option<&Preparation> {
        self.server.as_ref().map(|_| &self.preparation)
    }

    pub(super) fn client(&self) -> &Client {
        self.session.as_ref().expect("it is given back only on drop").client()
    }

    /// Whether a statement was cancelled, whichever it was.
    pub(super) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::SeqCst)
    }

    /// Ends the statement that the server works on.
    ///
    /// One that waits for a table that an administrator has locked would otherwise keep all behind it waiting, and its
    /// session on the server for as long as the lock is held, even though nobody waits for its answer.
    fn cancel(&self) {
        let (Some(server), Ok(runtime)) = (self.server.clone(), Handle::try_current()) else { return };
        let token = self.client().cancel_token();
        self.is_cancelled.store(true, Ordering::SeqCst);
        runtime.spawn(async move { timeout(server.patience, token.cancel_query(server.encryption)).await });
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let is_broken = *self.is_broken.get_mut();
        if let Some(session) = self.session.take().filter(|_| is_broken) {
            session.discard();
        }
    }
}

/// A statement that was sent, up to its answer.
struct Sent {
    line: Arc<Line>,
    since: Instant,
    answers: u64,
    /// What its end says about the connection; silent if nobody waits for it any longer.
    blame: Blame,
}

impl Sent {
    fn over(line: &Arc<Line>) -> Self {
        let answers = line.answers.load(Ordering::Relaxed);
        Self { line: Arc::clone(line), since: Instant::now(), answers, blame: Blame::Silent }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        let Line { answers, is_broken, .. } = &*self.line;
        match self.blame {
            Blame::None => {
                answers.fetch_add(1, Ordering::Relaxed);
            }
            Blame::Broken => is_broken.store(true, Ordering::Relaxed),
            // If another one was answered meanwhile, the one that the server works on may have just begun.
            Blame::Silent => {
                is_broken.store(true, Ordering::Relaxed);
                if answers.load(Ordering::Relaxed) == self.answers && self.since.elapsed() >= LONG {
                    self.line.cancel();
                }
            }
        }
    }
}

/// A server, and how to connect to it.
#[derive(Clone)]
pub(super) struct Server {
    config: Arc<Config>,
    encryption: Encryption,
    patience: Duration,
}

impl Dial for Server {
    type Connection = Arc<Line>;
    type Error = Trouble;

    async fn dial(self) -> Result<Arc<Line>, Trouble> {
        let Ok(connected) = timeout(self.patience, self.config.connect(self.encryption.clone())).await else {
            return Err(Trouble::timed_out("no connection", self.patience)
                .advising("check host and port, and that no firewall is between"));
        };
        let (client, mut connection) = connected?;
        let bells = Arc::<Bells>::default();
        let line = Arc::downgrade(&bells);
        // Whoever waits for an answer, and whoever listens, is told of the connection's end.
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    bells.ring(notification.payload());
                }
            }
        });
        Ok(Line::new(Box::new(Own(client)), line, Some(self)))
    }

    fn abandoned() -> Trouble {
        Trouble::new(StoreErrorKind::Unreachable, "the connection was given up before it was open")
    }

    fn blame(trouble: &Trouble) -> Blame {
        trouble.blame()
    }

    fn is_closed(line: &Arc<Line>) -> bool {
        line.client().is_closed() || line.is_cancelled()
    }
}

/// A connection that is nobody else's.
struct Own(Client);

impl Session for Own {
    fn client(&self) -> &Client {
        &self.0
    }

    fn discard(self: Box<Self>) {}
}
