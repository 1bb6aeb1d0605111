//! A state of the model: the store, the servers, the messages in flight, and what has happened so far.

use crate::facts::{Fact, Violations};
use crate::small::{
    Answer, Ask, Contents, End, FOREIGN, Fence, Micros, NO_TOKEN, SmallLease, SmallLock, SmallRecord,
    SmallSwap, Tick, Token, VersionNumber,
};

/// The greatest number of servers.
pub const MOST_SERVERS: usize = 3;

/// The greatest number of ticks.
pub const MOST_TICKS: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Index of the instant of real time.
    pub instant: u8,
    /// The store's clock less real time.
    pub offset: Micros,
    /// Number of jumps of the store's clock so far.
    pub jumps: u8,
    pub store: Contents,
    /// The replica that a failover promotes, as old as its last update.
    pub replica: Option<Contents>,
    pub servers: [Server; MOST_SERVERS],
    pub flights: Vec<Flight>,
    /// The open transaction that has marked the work of a lease as finished.
    pub transaction: Option<Transaction>,
    /// What an operator has seen, who is about to break it.
    pub seen: Option<(Fence, Token)>,
    /// Events that can still occur.
    pub budget: Budget,
    pub history: History,
    pub violations: Violations,
    /// Set in a state that only witnesses a fact.
    pub witness: Option<Fact>,
}

/// How often each event can occur.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Claims, each with a token of its own.
    pub claims: u8,
    /// Claims for a manual run.
    pub manual_runs: u8,
    /// Messages that are late, lost or duplicated.
    pub network: u8,
    pub crashes: u8,
    pub stops: u8,
    /// The shared lock disappears.
    pub vanishings: u8,
    /// Another program takes the shared lock.
    pub foreign: u8,
    pub pauses: u8,
    pub breaks: u8,
    pub wipes: u8,
    pub failovers: u8,
    /// Transactions that finish a run.
    pub transactions: u8,
}

/// A server. Servers have no names, so those of a state are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Server {
    /// Not started, idle, or started again after a crash.
    #[default]
    Idle,
    Claiming(Claiming),
    Running(Running),
    Ending(Ending),
}

/// A pending claim: `lease/pending.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claiming {
    pub ask: Ask,
    /// Whether a swap of this claim was sent and not answered.
    pub unanswered: bool,
    /// The part of a look that was read first.
    pub half: Option<Half>,
    /// Decided on a look; the swap is not sent yet.
    pub decided: Option<Decided>,
}

/// A part of a look. The clock and the lock are read together, the record before or after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Half {
    Clock(Micros, Option<SmallLock>),
    Record(Option<SmallRecord>),
}

/// A decision whose swap is not sent yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Decided {
    pub answer: Answer,
    pub swap: SmallSwap,
    pub without_look: bool,
}

/// A run under a lease that is kept alive: `lease/mod.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Running {
    pub lease: SmallLease,
    /// The local deadline, in real time.
    pub deadline: Micros,
    /// Whether the job's function was polled.
    pub begun: bool,
    /// Stopped by a signal.
    pub stopped: bool,
    pub cached: Option<Cached>,
    /// The part of a look that was read first.
    pub half: Option<Half>,
    pub extension: Option<Decided>,
    /// Whether it was finished in a transaction, which may not have been committed.
    pub finish_called: bool,
}

/// The record as this server wrote it last. Its state is that of the store, as long as the store has this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cached {
    pub version: VersionNumber,
    /// The lower bound of the store's clock less real time.
    pub offset: Micros,
}

/// A lease whose run is gone and that is to be released; or an abandoned claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ending {
    /// Without a fence if the claim was abandoned.
    pub lease: SmallLease,
    pub end: End,
    /// Whether the run was finished in a transaction, which may not have been committed.
    pub finish_called: bool,
    pub cached: Option<Cached>,
    pub decided: Option<Decided>,
}

impl Ending {
    pub fn is_abandoned(&self) -> bool {
        self.lease.fence == 0
    }
}

/// An open transaction of the application, which has locked the row of the newest lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Transaction {
    pub token: Token,
    pub fence: Fence,
    pub tick: Tick,
}

/// A message in flight. It arrives at any later time, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Flight {
    Claim { ask: Ask, answer: Answer, swap: SmallSwap, sent: Micros },
    Won { ask: Ask, lease: SmallLease, deadline: Micros, cached: Option<Cached> },
    Extend { lease: SmallLease, answer: Answer, swap: SmallSwap, sent: Micros },
    Kept { token: Token, until: Micros, deadline: Micros, cached: Option<Cached> },
    Release { lease: SmallLease, swap: SmallSwap },
}

/// What has happened, as far as the invariants need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct History {
    /// For each tick the attempts that were started, as bits.
    pub starts: [u8; MOST_TICKS + 1],
    pub highest_fence: Fence,
    /// The token that won the last started tick.
    pub owner: Token,
    /// The ticks that were skipped, as bits.
    pub skipped: u8,
    /// The store lost writes, and the newest lease has not been restored.
    pub lost_writes: bool,
    /// A lease was won after that: restoring another one does not undo it.
    pub was_succeeded: bool,
    /// The store lost writes after it had granted the highest fence.
    pub lost_newest: bool,
    pub clock_jumped: bool,
    pub lock_vanished: bool,
    /// The tokens whose run is on record, as bits.
    pub recorded: u16,
    /// The tokens whose lease was broken, as bits.
    pub broken: u16,
    /// The tokens whose lease was broken before the store lost writes, as bits.
    pub unbroken: u16,
    /// The ticks whose effects were committed, as bits.
    pub committed: u8,
    /// The tokens that were released since the store lost writes, as bits.
    pub released: u16,
}

impl History {
    pub fn bit(token: Token) -> u16 {
        1 << u16::from(token)
    }

    pub fn is_broken(&self, token: Token) -> bool {
        self.broken & Self::bit(token) != 0
    }
}

impl State {
    /// The server that claims or runs with this token, or else the one that releases it.
    pub fn server_with(&self, token: Token) -> Option<usize> {
        let has_it = |server: &Server| server.token() == token;
        let releases = |server: &Server| matches!(server, Server::Ending(_));
        let active = self.servers.iter().position(|server| has_it(server) && !releases(server));
        active.or_else(|| self.servers.iter().position(has_it))
    }

    /// A token that nothing refers to.
    pub fn new_token(&self) -> Token {
        let History { owner, recorded, broken, unbroken, released, .. } = self.history;
        let remembered = u16::BITS - (recorded | broken | unbroken | released).leading_zeros();
        let mut highest = owner.max(Token::try_from(remembered).expect("few tokens"));
        let mut copy = self.clone();
        copy.each_token(&mut |token| {
            if *token != FOREIGN {
                highest = highest.max(*token);
            }
        });
        highest + 1
    }
}

impl Server {
    pub fn token(&self) -> Token {
        match self {
            Self::Idle => NO_TOKEN,
            Self::Claiming(claiming) => claiming.ask.token,
            Self::Running(running) => running.lease.token,
            Self::Ending(ending) => ending.lease.token,
        }
    }

    pub fn tick(&self) -> Option<Tick> {
        match self {
            Self::Claiming(claiming) => Some(claiming.ask.tick),
            Self::Running(Running { begun: false, lease, .. }) => Some(lease.tick),
            _ => None,
        }
    }
}
