//! A store on a PostgreSQL server: each step is one function call, in one round trip and one transaction.
//!
//! The tables and functions are made when they are first needed, in the schema `public` or the one that the URL
//! names: `postgres://user:password@host/database?schema=jobs`. A key is a row of `job_lock`, which says who holds it,
//! its marks and its counts; `job_slot` says who holds slots, `job_run` and `job_skip` hold the newest records,
//! `job_server` and `job_request` what the servers tell each other. Programs and people may read all of them. The row
//! of a key that no job has counts no longer once it has expired, and goes when other keys come: a step that adds a row
//! removes a few such.
//!
//! Whoever frees a key that somebody waits for says so by `NOTIFY`. Who waits has a second connection for that, opened
//! when first needed and shared by all who wait. Behind a pooler that hands out a connection per transaction, `LISTEN`
//! succeeds and hears nothing: then, and while that connection is broken, whoever waits finds out by asking now and then.
//!
//! Nothing depends on the session: neither its time zone, nor its isolation level, nor that the next step goes over
//! the same one. So a pooler that hands out a connection per transaction will do. A claim that loses locks nothing.
//!
//! With the crate's feature `tls`, `sslmode` means what it means to PostgreSQL's own clients, with one exception on the
//! safe side: `require` verifies the server as `verify-full` does.
//!
//! | `sslmode` | encrypted | the server's certificate |
//! |---|---|---|
//! | `disable` | no | |
//! | `prefer`, the default | if the server offers it | is not verified |
//! | `verify-ca` | yes | is signed by the CA in the file `sslrootcert` |
//! | `require`, `verify-full`, the default with a certificate in the URL | yes | and is for this host's name |
//!
//! `sslrootcert=/etc/ssl/postgres-ca.pem` names whom to trust, instead of the system's root certificates; `sslcert=…` and
//! `sslkey=…` say who this server is. The files are PEM, and are read once, at start.
//!
//! An application that has a pool already lends its connections: [`PostgresStore::from_source`].
//!
//! Tested with PostgreSQL 15; the database's encoding should be UTF8.

use std::fmt;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use singleton_jobs_policy::check_key;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::{
    Announcement, Claim, Ending, ExtendReply, FindingsFuture, ForgetReply, HeldLock, History, Kind, Lease,
    ListenFuture, ReleaseReply, RequestHint, Requested, RunRequest, ServerInfo, Stamped, Store, StoreError,
    StoreErrorKind, StoreFuture, Verdict, What, model,
};
use arguments::Call;
use connection::Connection;
use listen::Ear;
use reply::{Abouts, Answer, ClaimAnswer, ExtendAnswer, ForgetAnswer, HeldOnes, ReleaseAnswer};
use source::Open;
pub use source::{Lending, Session, Source};
use trouble::Trouble;

mod address;
mod arguments;
mod connection;
#[cfg(feature = "deadpool-postgres")]
mod deadpool;
mod diagnosis;
mod encryption;
mod listen;
mod opening;
mod parameters;
mod reply;
mod schema;
mod source;
#[cfg(feature = "tls")]
mod tls;
mod trouble;

/// How long tables and functions may take to make, while other servers wait to find them made.
const MAKING: Duration = Duration::from_secs(10);

/// A store on a PostgreSQL server, reached over one connection that is opened when it is first needed, or over those that an application lends.
pub struct PostgresStore {
    location: String,
    user: Option<String>,
    schema: String,
    namespace: String,
    connection: Connection,
    ear: Ear,
    making: Mutex<()>,
}

impl PostgresStore {
    /// How long to wait for a connection, and for the answer to a step. By default 2 s for each host and 1 s, or what
    /// the URL says: `postgres://host/database?connect_timeout=5s&response_timeout=500ms`.
    #[must_use]
    pub fn with_timeouts(mut self, connect: Duration, response: Duration) -> Self {
        self.connection = self.connection.with_timeouts(connect, response);
        self
    }

    /// The SQL that makes the tables and functions, for an administrator to run where the store's own user may not.
    ///
    /// It can be run again and again, and grants the user that the URL names what it needs.
    pub fn setup_sql(&self) -> String {
        schema::script(&self.schema, self.user.as_deref())
    }

    async fn step<W: DeserializeOwned, T: From<W>>(
        &self,
        step: &'static str,
        call: Call<'_>,
    ) -> Result<Stamped<T>, StoreError> {
        let answer = self.ask(&call).await.map_err(|trouble| self.tell(step, &trouble))?;
        match answer.as_deref().map(serde_json::from_str::<Answer<W>>) {
            Some(Ok(Answer { at, reply })) => Ok(Stamped { at, reply: reply.into() }),
            _ => Err(self.unreadable(step, "its answer makes no sense")),
        }
    }

    async fn job_step<'a, W: DeserializeOwned, T: From<W>>(
        &'a self,
        step: &'static str,
        function: &'static str,
        key: &'a str,
        arguments: impl FnOnce(Call<'a>) -> Call<'a>,
    ) -> Result<Stamped<T>, StoreError> {
        self.check_key(step, key)?;
        self.step(step, arguments(Call::of_job(function, &self.namespace, key))).await
    }

    fn check_key(&self, step: &'static str, key: &str) -> Result<(), StoreError> {
        check_key(key).map_err(|problem| {
            let cause = format!("invalid key: {problem}");
            StoreError::new(StoreErrorKind::Misconfigured, step, &self.location, cause)
        })
    }

    /// Makes what is missing, and asks again.
    async fn ask(&self, call: &Call<'_>) -> Result<Option<String>, Trouble> {
        let answer = self.ask_until_nobody_is_in_the_way(call).await;
        if !answer.as_ref().is_err_and(Trouble::is_missing) {
            return answer;
        }
        let _one_at_a_time = self.making.lock().await;
        let answer = self.ask_until_nobody_is_in_the_way(call).await;
        if !answer.as_ref().is_err_and(Trouble::is_missing) {
            return answer;
        }
        let definitions = schema::definitions(&self.schema);
        let send = async |client: Open| client.batch_execute(&definitions).await;
        let made = self.connection.exchange(MAKING, send).await;
        made.map_err(|trouble| trouble.amid("the tables are missing, and cannot be made"))?;
        self.ask_until_nobody_is_in_the_way(call).await
    }

    /// A transaction that was broken off for another's sake was not applied, and may be repeated.
    async fn ask_until_nobody_is_in_the_way(&self, call: &Call<'_>) -> Result<Option<String>, Trouble> {
        let begun = Instant::now();
        loop {
            let send = async |client: Open| call.send(&client, &self.schema).await;
            let answer = self.connection.exchange(self.connection.response(), send).await;
            let again = answer.as_ref().is_err_and(Trouble::was_only_in_the_way);
            if !again || begun.elapsed() >= self.connection.response() {
                return answer;
            }
            let jitter = Uuid::new_v4().as_bytes()[0];
            tokio::time::sleep(Duration::from_micros(100 * u64::from(jitter))).await;
        }
    }

    fn tell(&self, step: &'static str, trouble: &Trouble) -> StoreError {
        let Trouble { kind, words, .. } = trouble;
        let advice = if trouble.is_forbidden() {
            "; have an administrator run what `PostgresStore::setup_sql` returns: it makes what is missing, and grants \
             what is needed"
        } else {
            ""
        };
        StoreError::new(*kind, step, &self.location, format!("{words}{advice}"))
    }

    fn unreadable(&self, step: &'static str, cause: &str) -> StoreError {
        StoreError::new(StoreErrorKind::Unreadable, step, &self.location, cause)
    }
}

impl Store for PostgresStore {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn ping(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.step::<(), ()>("ping", Call::new("jobs_ping_v1")))
    }

    fn claim<'a>(&'a self, key: &'a str, claim: &'a Claim) -> StoreFuture<'a, Verdict> {
        if let What::Slot(of) = claim.what {
            return Box::pin(self.job_step::<ClaimAnswer, _>(
                "claim",
                "jobs_slot_claim_v1",
                key,
                move |call| call.slot_claim(claim, of),
            ));
        }
        Box::pin(self.job_step::<ClaimAnswer, _>("claim", "jobs_claim_v1", key, |call| call.claim(claim)))
    }

    fn extend<'a>(&'a self, key: &'a str, lease: &'a Lease) -> StoreFuture<'a, ExtendReply> {
        if let Kind::Slot { of } = lease.kind {
            return Box::pin(self.job_step::<ExtendAnswer, _>(
                "extend",
                "jobs_slot_extend_v1",
                key,
                move |call| call.slot(lease, of),
            ));
        }
        Box::pin(self.job_step::<ExtendAnswer, _>("extend", "jobs_extend_v1", key, |call| call.lease(lease)))
    }

    fn release<'a>(
        &'a self,
        key: &'a str,
        lease: &'a Lease,
        end: &'a Ending,
    ) -> StoreFuture<'a, ReleaseReply> {
        if let Kind::Slot { .. } = lease.kind {
            return Box::pin(self.job_step::<ReleaseAnswer, _>(
                "release",
                "jobs_slot_release_v1",
                key,
                |call| call.text(&*lease.token).number(lease.fence),
            ));
        }
        Box::pin(self.job_step::<ReleaseAnswer, _>("release", "jobs_release_v1", key, |call| {
            call.lease(lease).ending(end)
        }))
    }

    fn break_lock<'a>(&'a self, key: &'a str, remember: usize) -> StoreFuture<'a, Vec<HeldLock>> {
        Box::pin(self.job_step::<HeldOnes, _>("break_lock", "jobs_break_lock_v1", key, move |call| {
            call.remember(remember)
        }))
    }

    fn locks(&self) -> StoreFuture<'_, Vec<HeldLock>> {
        let call = Call::new("jobs_locks_v1").text(&self.namespace).format();
        Box::pin(self.step::<HeldOnes, _>("locks", call))
    }

    fn listen<'a>(&'a self, key: &'a str) -> ListenFuture<'a> {
        Box::pin(async move {
            self.check_key("listen", key)?;
            let payload = format!("{}/{}/{key}", self.schema, self.namespace);
            let listener = self.ear.listen(&self.connection, payload).await;
            listener.map_err(|trouble| self.tell("listen", &trouble))
        })
    }

    fn set_paused<'a>(&'a self, key: &'a str, paused: bool) -> StoreFuture<'a, ()> {
        let step = if paused { "pause" } else { "resume" };
        Box::pin(self.job_step::<(), ()>(step, "jobs_set_paused_v1", key, move |call| call.flag(paused)))
    }

    fn reset<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(self.job_step::<(), ()>("reset", "jobs_reset_v1", key, |call| call))
    }

    fn forget<'a>(&'a self, key: &'a str, quiet: Duration) -> StoreFuture<'a, ForgetReply> {
        Box::pin(
            self.job_step::<ForgetAnswer, _>("forget", "jobs_forget_v1", key, move |call| {
                call.duration(quiet)
            }),
        )
    }

    fn request<'a>(&'a self, key: &'a str, request: &'a RunRequest) -> StoreFuture<'a, Requested> {
        Box::pin(
            self.job_step::<Requested, _>("request", "jobs_request_v1", key, |call| call.request(request)),
        )
    }

    fn history<'a>(&'a self, key: &'a str) -> StoreFuture<'a, History> {
        Box::pin(async move {
            let stored =
                self.job_step::<model::State, model::State>("history", "jobs_history_v1", key, |call| call);
            let Stamped { at, reply: state } = stored.await?;
            if state.format > model::FORMAT {
                return Err(self.unreadable("history", "its format is newer than this server reads"));
            }
            Ok(Stamped { at, reply: model::history(&state, at) })
        })
    }

    fn announce<'a>(&'a self, announcement: &'a Announcement) -> StoreFuture<'a, Vec<RequestHint>> {
        let call = Call::new("jobs_announce_v1").text(&self.namespace).announcement(announcement);
        Box::pin(self.step::<Vec<RequestHint>, _>("announce", call))
    }

    fn leave<'a>(&'a self, server: &'a str) -> StoreFuture<'a, ()> {
        let call = Call::new("jobs_leave_v1").text(&self.namespace).text(server);
        Box::pin(self.step::<(), ()>("leave", call))
    }

    fn servers(&self) -> StoreFuture<'_, Vec<ServerInfo>> {
        let call = Call::new("jobs_servers_v1").text(&self.namespace);
        Box::pin(self.step::<Abouts, _>("servers", call))
    }

    fn diagnose<'a>(&'a self, jobs: &'a [String]) -> FindingsFuture<'a> {
        let look = async |client: Open| diagnosis::look(&client, &self.schema, &self.namespace, jobs).await;
        Box::pin(async move {
            let found = self.connection.exchange(self.connection.response(), look).await;
            found.map_err(|trouble| self.tell("diagnose", &trouble))
        })
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("location", &self.location)
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}
