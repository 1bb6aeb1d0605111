//! The dashboard: web pages and JSON about the fleet, as an axum [`Router`] to mount anywhere, or as a server of its own.
//!
//! ```no_run
//! use axum::Router;
//! use jobs::dashboard::Dashboard;
//!
//! async fn serve(jobs: jobs::Jobs) -> Result<(), Box<dyn std::error::Error>> {
//!     let dashboard = Dashboard::new(jobs).title("shop");
//!     let app: Router = Router::new().nest_service("/jobs", dashboard.into_router());
//!     axum::serve(tokio::net::TcpListener::bind("127.0.0.1:8080").await?, app).await?;
//!     Ok(())
//! }
//! ```
//!
//! It is read-only unless [actions are allowed](Dashboard::allow_actions). The pages, the authorization and the JSON are described
//! in [the guide](crate::guide::dashboard).

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::http::request::Parts;

use crate::Jobs;
use access::Access;
use feed::Feed;

mod access;
mod actions;
mod api;
mod assets;
mod feed;
mod live;
mod pages;
mod parameters;
mod router;
mod standalone;

pub use access::RequestedAction;
pub use standalone::{Authentication, ServeError, serve};

/// The dashboard of a fleet: [the module](self) shows how to mount it.
#[must_use = "a dashboard is served by the router that it becomes"]
pub struct Dashboard {
    jobs: Jobs,
    title: String,
    access: Access,
}

/// What all requests share.
struct Shared {
    jobs: Jobs,
    title: String,
    access: Access,
    feed: Feed,
}

impl Dashboard {
    /// Creates a read-only dashboard of the fleet that this handle belongs to. The store is read only while someone looks, and at
    /// most once per second.
    pub fn new(jobs: Jobs) -> Self {
        Self { jobs, title: "Jobs".to_owned(), access: Access::default() }
    }

    /// Sets the title, for example the name of the service or of the environment.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Allows the actions for which the function returns `true`. It is called for each action that a request makes, and for each
    /// button that a page shows. Without it there are no actions.
    ///
    /// A pause of all jobs, and its end, are actions without a key.
    ///
    /// The function sees the head of the request, with what the application's middleware has added to it:
    ///
    /// ```
    /// # use jobs::dashboard::Dashboard;
    /// use jobs::fleet::ActionKind;
    ///
    /// #[derive(Clone)]
    /// struct User { name: String, is_operator: bool } // inserted by the application's login
    ///
    /// # fn mount(jobs: jobs::Jobs) -> axum::Router {
    /// let dashboard = Dashboard::new(jobs)
    ///     .allow_actions(|request, action| match request.extensions.get::<User>() {
    ///         Some(user) => user.is_operator && action.kind != ActionKind::Unlock,
    ///         None => false,
    ///     })
    ///     .actor(|request| Some(request.extensions.get::<User>()?.name.clone()));
    /// # dashboard.into_router() }
    /// ```
    pub fn allow_actions(
        mut self,
        allow: impl Fn(&Parts, &RequestedAction) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.access.allow = Some(Arc::new(allow));
        self
    }

    /// Sets who acts, for the audit list. Without it, or if the function returns `None`, actions are recorded in the name of the
    /// user whom [`serve`] has authenticated, and else in the name of this server.
    pub fn actor(mut self, actor: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static) -> Self {
        self.access.actor = Some(Arc::new(actor));
        self
    }

    /// Sets the hosts under which browsers reach the dashboard, as in their address bar: `ops.example.com`, with a port if there is
    /// one. An action is then allowed only from pages of these hosts, and [`serve`] answers requests for these hosts only.
    ///
    /// Without it, an action must come from the host that the request names. Set it behind a proxy that changes the `Host` header.
    pub fn hosts(mut self, hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let hosts: BTreeSet<_> = hosts.into_iter().map(|host| host.into().to_ascii_lowercase()).collect();
        self.access.hosts = Some(hosts);
        self
    }

    /// Returns the router. Mount it with [`Router::nest_service`] at any path; [`Router::nest`] does not match the path with a slash
    /// at its end. All its links are relative, so that it works behind proxies that remove a prefix of the path.
    pub fn into_router(self) -> Router {
        let Self { jobs, title, access } = self;
        router::router(Arc::new(Shared { feed: Feed::new(jobs.clone()), jobs, title, access }))
    }
}

impl std::fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let allows_actions = self.access.allow.is_some();
        f.debug_struct("Dashboard")
            .field("title", &self.title)
            .field("allows_actions", &allows_actions)
            .finish_non_exhaustive()
    }
}
