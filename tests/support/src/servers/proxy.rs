//! A way to a real server on which something breaks, at the place and in the manner that the test says.
//!
//! It knows no protocol. It counts *turns*: a request begins when the client speaks after the server did, and an
//! answer when the server speaks after the client did, whatever pieces they arrive in.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

/// What happens to one connection at one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is lost, and so is all that the client says after it. Nobody is told.
    LostRequest,
    /// The request arrives only when the client has given up.
    LateRequest,
    /// A reset before the request is passed on.
    ResetBeforeRequest,
    /// The way to the server is closed in place of the request.
    ClosedBeforeRequest,
    /// The way to the server is closed behind the request.
    ClosedBehindRequest,
    /// The request was applied; the answer never comes, nor another. The connection stays open.
    LostAnswer,
    /// The answer comes only when the client has given up.
    LateAnswer,
    /// The request was applied; a reset comes instead of the answer.
    ResetBeforeAnswer,
    /// The way from the server is closed in place of the answer; the way to it stays open.
    ClosedBeforeAnswer,
    /// Half of the answer comes, then the end.
    CutAnswer,
    /// Half of the answer comes, then nothing.
    StuckAnswer,
}

impl Fault {
    pub const ALL: [Self; 11] = [
        Self::LostRequest,
        Self::LateRequest,
        Self::ResetBeforeRequest,
        Self::ClosedBeforeRequest,
        Self::ClosedBehindRequest,
        Self::LostAnswer,
        Self::LateAnswer,
        Self::ResetBeforeAnswer,
        Self::ClosedBeforeAnswer,
        Self::CutAnswer,
        Self::StuckAnswer,
    ];

    fn side(self) -> Side {
        match self {
            Self::LostRequest
            | Self::LateRequest
            | Self::ResetBeforeRequest
            | Self::ClosedBeforeRequest
            | Self::ClosedBehindRequest => Side::Client,
            _ => Side::Server,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

/// The way; gone, with all its connections, when dropped.
pub struct Proxy {
    port: u16,
    course: Arc<Mutex<Course>>,
    door: JoinHandle<()>,
}

/// What has happened since the test began to count, and what is to happen.
#[derive(Default)]
struct Course {
    requests: usize,
    answers: usize,
    planned: Vec<(Fault, usize)>,
    struck: Option<Instant>,
    /// How many late requests and answers are still on their way.
    under_way: usize,
    connections: usize,
    /// By how much every turn is delayed.
    delay: Duration,
    /// Whether nothing passes.
    cut: bool,
}

/// How it treats its connections.
#[derive(Clone, Copy)]
struct Manner {
    late: Duration,
    latency: Duration,
}

impl Proxy {
    /// In front of the server on this port. What comes late comes so much later.
    pub async fn before(server: u16, late: Duration) -> Self {
        Self::open(server, Manner { late, latency: Duration::ZERO }).await
    }

    /// Nothing breaks here, but every turn takes a little longer.
    pub async fn slow(server: u16, latency: Duration) -> Self {
        Self::open(server, Manner { late: Duration::ZERO, latency }).await
    }

    async fn open(server: u16, manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let course = Arc::new(Mutex::new(Course::default()));
        let door = tokio::spawn(keep_open(listener, server, manner, Arc::clone(&course)));
        Self { port, course, door }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Counts from here, and strikes at the so-many-th request or answer (from 1) on whatever connection.
    pub fn strike(&self, faults: &[(Fault, usize)]) {
        let mut course = lock(&self.course);
        (course.requests, course.answers, course.struck) = (0, 0, None);
        course.planned = faults.to_vec();
    }

    /// Delays every turn from now on, on every connection.
    pub fn delay(&self, delay: Duration) {
        lock(&self.course).delay = delay;
    }

    /// Lets nothing pass. What is sent meanwhile arrives after [`join`](Self::join), as after a partition.
    pub fn cut(&self) {
        lock(&self.course).cut = true;
    }

    pub fn join(&self) {
        lock(&self.course).cut = false;
    }

    /// When the last fault happened, if all have.
    pub fn struck(&self) -> Option<Instant> {
        let course = lock(&self.course);
        course.struck.filter(|_| course.planned.is_empty())
    }

    /// How many requests were answered since the test began to count.
    pub fn answers(&self) -> usize {
        lock(&self.course).answers
    }

    /// Connections ever made.
    pub fn connections(&self) -> usize {
        lock(&self.course).connections
    }

    /// Returns when what was late has arrived.
    pub async fn settle(&self) {
        while lock(&self.course).under_way > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.door.abort();
    }
}

async fn keep_open(listener: TcpListener, server: u16, manner: Manner, course: Arc<Mutex<Course>>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        lock(&course).connections += 1;
        connections.spawn(connect(client, server, manner, Arc::clone(&course)));
    }
}

async fn connect(client: TcpStream, server: u16, manner: Manner, course: Arc<Mutex<Course>>) {
    pass(&course).await;
    // A client is refused as the server itself would: its connection ends.
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    let _faster = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut client, mut server) = (client, server);
    let way = Way { manner, course, spoke: Mutex::new(Side::Server), reset: Notify::new() };
    let reset = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let both = async {
            tokio::join!(
                way.carry(Side::Client, from_client, to_server),
                way.carry(Side::Server, from_server, to_client)
            )
        };
        tokio::select! {
            _ = both => false,
            () = way.reset.notified() => true,
        }
    };
    if reset {
        client.set_zero_linger().expect("an open socket");
    }
}

/// Waits while nothing passes.
async fn pass(course: &Mutex<Course>) {
    while lock(course).cut {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// One connection.
struct Way {
    manner: Manner,
    course: Arc<Mutex<Course>>,
    /// Who spoke last.
    spoke: Mutex<Side>,
    reset: Notify,
}

impl Way {
    /// Carries one direction to its end. What happens to the other one is its own affair.
    async fn carry(&self, side: Side, mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
        let mut bytes = vec![0; 64 * 1024];
        let mut silent = false;
        loop {
            let length = from.read(&mut bytes).await.unwrap_or(0);
            if silent && length > 0 {
                continue;
            }
            if silent || length == 0 {
                // A connection that fell silent does not tell of its end either.
                if !silent || side == Side::Client {
                    let _already_closed = to.shutdown().await;
                }
                return;
            }
            let mut bytes = &bytes[..length];
            let fault = self.turn(side);
            let latency = self.manner.latency + lock(&self.course).delay;
            if latency > Duration::ZERO {
                tokio::time::sleep(latency).await;
            }
            pass(&self.course).await;
            match fault {
                None | Some(Fault::ClosedBehindRequest) => {}
                Some(Fault::LostRequest | Fault::LostAnswer) => {
                    silent = true;
                    continue;
                }
                Some(Fault::LateRequest | Fault::LateAnswer) => {
                    tokio::time::sleep(self.manner.late).await;
                }
                Some(Fault::ResetBeforeRequest | Fault::ResetBeforeAnswer) => {
                    self.reset.notify_one();
                    return std::future::pending().await;
                }
                Some(Fault::ClosedBeforeRequest | Fault::ClosedBeforeAnswer) => {
                    let _already_closed = to.shutdown().await;
                    silent = true;
                    continue;
                }
                Some(Fault::CutAnswer | Fault::StuckAnswer) => bytes = &bytes[..length.div_ceil(2)],
            }
            let carried = to.write_all(bytes).await;
            match fault {
                Some(Fault::LateRequest | Fault::LateAnswer) => lock(&self.course).under_way -= 1,
                Some(Fault::ClosedBehindRequest | Fault::CutAnswer) => {
                    let _already_closed = to.shutdown().await;
                    silent = true;
                }
                Some(Fault::StuckAnswer) => silent = true,
                _ => {}
            }
            if carried.is_err() && side == Side::Server {
                silent = true;
            }
        }
    }

    /// Notes that this side speaks, and says what is to happen.
    fn turn(&self, side: Side) -> Option<Fault> {
        if std::mem::replace(&mut *lock(&self.spoke), side) == side {
            return None;
        }
        let mut course = lock(&self.course);
        let number = match side {
            Side::Client => &mut course.requests,
            Side::Server => &mut course.answers,
        };
        *number += 1;
        let number = *number;
        let due = course.planned.iter().position(|(fault, nth)| fault.side() == side && *nth == number)?;
        let (fault, _) = course.planned.remove(due);
        course.struck = Some(Instant::now());
        if matches!(fault, Fault::LateRequest | Fault::LateAnswer) {
            course.under_way += 1;
        }
        Some(fault)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
