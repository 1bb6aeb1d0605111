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
use super::prepared::Prepared;
use super::source::{Session, Source};
use super::trouble::{Result, Trouble};

/// The channel of all notifications. Each names its schema, namespace and key.
const LISTEN: &str = "LISTEN jobs_freed";

/// A statement that has not been answered for so long probably waits for another session.
const LONG: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(super) struct Connection {
    way: Way,
    pub(super) timeouts: Timeouts,
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
        let server = Server { config: Arc::new(config), encryption, patience: timeouts.connect };
        let [shared, listening] = [(); 2].map(|()| Arc::new(Shared::new()));
        Self { way: Way::Own { server, shared, listening }, timeouts }
    }

    pub(super) fn lent_by(source: impl Source) -> Self {
        Self { way: Way::Lent(Arc::new(source)), timeouts: Timeouts::default() }
    }

    pub(super) fn with_timeouts(mut self, connect: Duration, response: Duration) -> Self {
        self.timeouts = Timeouts { connect, response };
        if let Way::Own { server, .. } = &mut self.way {
            Arc::make_mut(&mut server.config).connect_timeout(connect);
            server.patience = connect;
        }
        self
    }

    /// Runs one exchange, for which the server has this long once the connection is open.
    pub(super) async fn exchange<T, F: Future<Output = Result<T>>>(
        &self,
        patience: Duration,
        talk: impl FnOnce(Arc<Line>) -> F,
    ) -> Result<T> {
        let talk = |line: Arc<Line>| async move {
            let answers = line.answers.load(Ordering::Relaxed);
            let mut sent = Sent { line: line.clone(), since: Instant::now(), answers, blame: Blame::Silent };
            let result = in_time(patience, talk(line)).await;
            sent.blame = result.as_ref().err().map_or(Blame::None, Trouble::blame);
            result
        };
        match &self.way {
            Way::Own { server, shared, .. } => shared.exchange(server, talk).await,
            Way::Lent(source) => talk(borrow(source.as_ref(), self.timeouts.connect).await?).await,
        }
    }

    /// Subscribes to a payload, from now on.
    ///
    /// `None` if the store has no connection of its own: one that is lent has to be given back.
    pub(super) async fn listen(&self, payload: String) -> Result<Option<Listener>> {
        let Way::Own { server, listening, .. } = &self.way else { return Ok(None) };
        let talk = |line: Arc<Line>| async move {
            // It can be repeated, and shows that the server still answers.
            let confirmed = async { line.client().batch_execute(LISTEN).await.map_err(Trouble::from) };
            in_time(self.timeouts.response, confirmed).await?;
            let ended = || Trouble::new(StoreErrorKind::Unreachable, "the connection that listens has ended");
            Ok(line.bells.upgrade().ok_or_else(ended)?.hang(payload).0)
        };
        listening.exchange(server, talk).await.map(Some)
    }
}

async fn in_time<T>(patience: Duration, talk: impl Future<Output = Result<T>>) -> Result<T> {
    // What is not answered may have been applied, or be applied later.
    timeout(patience, talk).await.unwrap_or_else(|_| Err(Trouble::timed_out("no answer", patience)))
}

async fn borrow(source: &dyn Source, patience: Duration) -> Result<Arc<Line>> {
    match timeout(patience, source.connect()).await {
        Ok(Ok(session)) => Ok(Arc::new(Line { session: Some(session), ..Line::default() })),
        Ok(Err(error)) => Err(Trouble::from(error)),
        Err(_) => Err(Trouble::timed_out("no connection was lent", patience).advising(
            "all of them are in use, or no new one can be opened; make the pool larger, or give the jobs one of their \
             own",
        )),
    }
}

/// A connection that is open.
#[derive(Default)]
pub(super) struct Line {
    /// There until it is discarded.
    session: Option<Box<dyn Session>>,
    /// Those to notify of what comes over it.
    bells: Weak<Bells>,
    /// Where it leads, if it is the store's own.
    server: Option<Server>,
    /// Nothing is left in a session that is lent.
    pub(super) prepared: Option<Prepared>,
    answers: AtomicU64,
    is_cancelled: AtomicBool,
}

impl Line {
    pub(super) fn client(&self) -> &Client {
        self.session.as_ref().expect("nobody uses it once it is discarded").client()
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

/// A statement that was sent, up to its answer.
struct Sent {
    line: Arc<Line>,
    since: Instant,
    answers: u64,
    /// What its end says about the connection; silent if nobody waits for it any longer.
    blame: Blame,
}

impl Drop for Sent {
    fn drop(&mut self) {
        let answers = &self.line.answers;
        if self.blame == Blame::None {
            answers.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // If another one was answered meanwhile, the one that the server works on may have just begun.
        let is_stuck = answers.load(Ordering::Relaxed) == self.answers && self.since.elapsed() >= LONG;
        if self.blame == Blame::Silent && is_stuck {
            self.line.cancel();
        }
        // What is lent is used by one statement at a time; what is the store's own is closed when all have left it.
        if let Some(session) = Arc::get_mut(&mut self.line).and_then(|line| line.session.take()) {
            session.discard();
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

    async fn dial(self) -> Result<Arc<Line>> {
        let Ok(connected) = timeout(self.patience, self.config.connect(self.encryption.clone())).await else {
            return Err(Trouble::timed_out("no connection", self.patience)
                .advising("check host and port, and that no firewall is between"));
        };
        let (client, mut connection) = connected?;
        let bells = Arc::<Bells>::default();
        let line = Line {
            session: Some(Box::new(client)),
            bells: Arc::downgrade(&bells),
            server: Some(self),
            prepared: Some(Prepared::default()),
            ..Line::default()
        };
        // Whoever waits for an answer, and whoever listens, is told of the connection's end.
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    bells.ring(notification.payload());
                }
            }
        });
        Ok(Arc::new(line))
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
