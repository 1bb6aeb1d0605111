//! A server is ready again when a request that the store had refused succeeds.

use super::*;
use crate::Health;
use crate::store::{PauseOrder, StoreClient};

/// Refuses one request.
struct RefusesOnce(fn(Request<'_>) -> bool, AtomicBool);

impl Hook for RefusesOnce {
    fn before<'a>(&'a self, request: Request<'a>) -> HookFuture<'a> {
        let refuses = (self.0)(request) && !self.1.swap(true, Ordering::SeqCst);
        let refused = refuses.then(|| ServerLink::error(StoreErrorKind::Refused, "no permission"));
        Box::pin(std::future::ready(refused.map_or(Ok(()), Err)))
    }
}

/// A server whose store refuses the first of these requests.
fn refused_once(refuses: fn(Request<'_>) -> bool) -> Arc<Server> {
    let clock = TestClock::new();
    let link = Link::new(clock.clone());
    let hook = RefusesOnce(refuses, AtomicBool::new(false));
    let store = Arc::new(Intercept::new(Arc::new(link.store.clone()), hook));
    Arc::new(Server::new(ServerConfig { store, ..setup("server", &link, clock) }))
}

fn is_refused(server: &Server) -> bool {
    matches!(server.health.get(), Health::StoreUnavailable { kind: StoreErrorKind::Refused, .. })
}

fn order() -> PauseOrder {
    PauseOrder { by: "operator".into(), reason: None, lasts: None, all: false }
}

const WITHIN: Duration = Duration::from_secs(5);

/// A step that is refused once, and then succeeds.
macro_rules! server_is_ready_again_when_a_refused_step_succeeds {
    ($($step:ident: $refuses:pat, |$requests:ident| $ask:expr;)+) => {
        mod server_is_ready_again_when_a_refused_step_succeeds {
            use super::*;
            $(
                #[tokio::test(start_paused = true)]
                async fn $step() {
                    let server = refused_once(|request| matches!(request, $refuses));
                    let $requests = server.requests(WITHIN);
                    assert!($ask.await.is_err());
                    assert!(is_refused(&server), "{:?}", server.health.get());
                    $ask.await.expect("it is refused once");
                    assert_eq!(server.health.get(), Health::Ready);
                }
            )+
        }
    };
}

server_is_ready_again_when_a_refused_step_succeeds! {
    ping: Request::Look(_), |requests| requests.ping();
    pause: Request::Swap(..), |requests| requests.pause("job", &order(), 1);
    history: Request::Records(_), |requests| requests.history("job");
    locks: Request::List, |requests| requests.locks();
    announcement: Request::PutNote(Topic::Servers, _), |requests| announce(&requests);
    requests_in_an_announcement: Request::Notes(Topic::Requests), |requests| announce(&requests);
    servers: Request::Notes(Topic::Servers), |requests| requests.servers();
    request_of_a_run: Request::PutNote(Topic::Requests, _), |requests| request(&requests);
}

async fn announce(requests: &StoreClient<'_>) -> Result<(), StoreError> {
    requests.announce("server", "{}".into(), WITHIN).await.map(drop)
}

async fn request(requests: &StoreClient<'_>) -> Result<(), StoreError> {
    requests.request("job", "request", "server", WITHIN).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn server_is_ready_again_after_the_first_heartbeat_that_is_not_refused() {
    let server = refused_once(|request| matches!(request, Request::PutNote(..)));
    let jobs = vec![job("24h", 30).run(|_| std::future::ready(())).build().unwrap()];
    let clock = TestClock::new();
    let server = Arc::new(Server::new(ServerConfig {
        jobs,
        store: server.store.clone(),
        ..setup("server", &Link::new(clock.clone()), clock)
    }));
    tokio::spawn(crate::server::heartbeat::announce(server.clone()));
    tokio::task::yield_now().await;
    assert!(is_refused(&server), "{:?}", server.health.get());
    seconds(1).await;
    assert_eq!(server.health.get(), Health::Ready);
}

#[tokio::test(start_paused = true)]
async fn refused_step_keeps_the_server_unready_when_another_step_succeeds() {
    let server = refused_once(|request| matches!(request, Request::PutNote(..)));
    let requests = server.requests(WITHIN);
    assert!(announce(&requests).await.is_err());
    requests.history("job").await.unwrap();
    assert!(is_refused(&server), "{:?}", server.health.get());
}
