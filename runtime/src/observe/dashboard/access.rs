//! Who may act: the application's function, and the origin of the request.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::request::Parts;

use crate::fleet::ActionKind;

/// An action that a request to the dashboard asks for, or that a page offers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestedAction {
    /// What is to be done.
    pub kind: ActionKind,
    /// The key of the job or lock; `None` for all jobs, which can be paused and resumed together.
    pub key: Option<String>,
}

/// The user whom the standalone server has authenticated.
#[derive(Clone)]
pub(super) struct AuthenticatedUser(pub(super) String);

type Allow = dyn Fn(&Parts, &RequestedAction) -> bool + Send + Sync;
type Actor = dyn Fn(&Parts) -> Option<String> + Send + Sync;

#[derive(Clone, Default)]
pub(super) struct Access {
    pub(super) allow: Option<Arc<Allow>>,
    pub(super) actor: Option<Arc<Actor>>,
    pub(super) hosts: Option<BTreeSet<String>>,
}

impl Access {
    /// Whether the application allows the action on this key, or on all jobs.
    pub(super) fn allows(&self, request: &Parts, kind: ActionKind, key: Option<&str>) -> bool {
        let action = RequestedAction { kind, key: key.map(str::to_owned) };
        self.allow.as_ref().is_some_and(|allow| allow(request, &action))
    }

    pub(super) fn actor(&self, request: &Parts) -> Option<String> {
        let named = self.actor.as_ref().and_then(|actor| actor(request));
        let authenticated = || Some(request.extensions.get::<AuthenticatedUser>()?.0.clone());
        named.or_else(authenticated).filter(|name| !name.trim().is_empty())
    }

    /// Checks that an action comes from a page of the dashboard. A browser does not let other pages set these headers.
    pub(super) fn check_origin(&self, headers: &HeaderMap) -> Result<(), &'static str> {
        let site = text(headers, &HeaderName::from_static("sec-fetch-site"));
        if site.is_some_and(|site| site != "same-origin") {
            return Err("the request comes from another site");
        }
        let Some(origin) = text(headers, &ORIGIN) else {
            return Err("the request does not name its origin; send the header `Origin`");
        };
        let Some((_, origin)) = origin.split_once("://") else {
            return Err("the request comes from a page without an origin");
        };
        let is_ours = match &self.hosts {
            Some(hosts) => hosts.contains(&origin.to_ascii_lowercase()),
            None => text(headers, &HOST).is_some_and(|host| host.eq_ignore_ascii_case(origin)),
        };
        if is_ours { Ok(()) } else { Err("the request comes from a page of another host") }
    }
}

/// The only header of this name, if it is text.
pub(super) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() { Some("") } else { Some(first.to_str().unwrap_or("")) }
}
