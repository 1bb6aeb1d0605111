//! The dashboard as a server of its own.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, HOST, WWW_AUTHENTICATE};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::access::{AuthenticatedUser, text};
use super::{Access, Dashboard};

/// How long a wrong secret is answered late. Wrong secrets wait for each other.
const FAILURE_DELAY: Duration = Duration::from_millis(500);

/// What a request has to present to the standalone server.
///
/// A token is accepted as a bearer token, and as the password of any user, which is what a browser asks for. The user's name is
/// recorded with actions.
#[derive(Clone)]
pub struct Authentication(Secret);

#[derive(Clone)]
enum Secret {
    Token(String),
    User { name: String, password: String },
}

impl Authentication {
    /// Requires this token: `Authorization: Bearer …`, or any user with the token as password.
    ///
    /// Use at least 16 random characters. An empty token is refused by [`serve`].
    pub fn token(token: impl Into<String>) -> Self {
        Self(Secret::Token(token.into()))
    }

    /// Requires this user and password, by HTTP basic authentication.
    pub fn basic(name: impl Into<String>, password: impl Into<String>) -> Self {
        Self(Secret::User { name: name.into(), password: password.into() })
    }

    fn is_empty(&self) -> bool {
        matches!(&self.0, Secret::Token(secret) | Secret::User { password: secret, .. } if secret.is_empty())
    }

    /// The name of the user, empty for a bearer token; `None` if the secret is wrong.
    fn user(&self, header: &str) -> Option<String> {
        let (scheme, value) = header.split_once(' ')?;
        let value = value.trim();
        if scheme.eq_ignore_ascii_case("bearer") {
            let Secret::Token(token) = &self.0 else { return None };
            return is_same(token, value).then(String::new);
        }
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let decoded = String::from_utf8(base64(value)?).ok()?;
        let (user, presented) = decoded.split_once(':')?;
        let is_right = match &self.0 {
            Secret::Token(token) => is_same(token, presented),
            // Both are compared, whichever is wrong.
            Secret::User { name, password } => is_same(name, user) & is_same(password, presented),
        };
        is_right.then(|| user.to_owned())
    }
}

impl fmt::Debug for Authentication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authentication(…)")
    }
}

/// In a time that does not depend on where they differ.
fn is_same(secret: &str, presented: &str) -> bool {
    secret.as_bytes().ct_eq(presented.as_bytes()).into()
}

/// Decodes base64 with or without padding. It is here because nothing else of the crate needs it.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(u32::from(byte - b'A')),
        b'a'..=b'z' => Some(u32::from(byte - b'a') + 26),
        b'0'..=b'9' => Some(u32::from(byte - b'0') + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let mut bytes = Vec::new();
    for chunk in text.trim_end_matches('=').as_bytes().chunks(4) {
        let mut bits = 0;
        for place in 0..4 {
            bits = bits << 6 | chunk.get(place).map_or(Some(0), |byte| digit(*byte))?;
        }
        bytes.extend(bits.to_be_bytes().into_iter().skip(1).take(chunk.len() * 6 / 8));
    }
    Some(bytes)
}

/// Why a standalone dashboard does not serve.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// Other machines could reach the address, and no authentication is required.
    Unprotected(SocketAddr),
    /// The secret is empty.
    EmptySecret,
    /// The listener has failed.
    Io(std::io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unprotected(address) => write!(
                f,
                "refused to serve the dashboard on {address}: other machines may reach it; require a token, or listen on 127.0.0.1"
            ),
            Self::EmptySecret => {
                f.write_str("refused to serve the dashboard with an empty token or password")
            }
            Self::Io(error) => write!(f, "failed to serve the dashboard: {error}"),
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// Serves the dashboard at the root of this listener, until the jobs are [shut down](crate::Jobs::shutdown).
///
/// Without authentication it serves only on loopback addresses, and only requests that name a loopback host or one of
/// [`Dashboard::hosts`], so that no page of another site can read it by a name that resolves to this machine.
pub async fn serve(
    listener: TcpListener,
    dashboard: Dashboard,
    authentication: Option<Authentication>,
) -> Result<(), ServeError> {
    let address = listener.local_addr().map_err(ServeError::Io)?;
    match &authentication {
        Some(authentication) if authentication.is_empty() => return Err(ServeError::EmptySecret),
        None if !address.ip().is_loopback() => return Err(ServeError::Unprotected(address)),
        _ => {}
    }
    let (jobs, access) = (dashboard.jobs.clone(), dashboard.access.clone());
    let guard = Arc::new(Guarded { authentication, access, failing: Mutex::default() });
    let router = dashboard.into_router().layer(from_fn_with_state(guard, admit));
    let ended = async move {
        let _why = jobs.closed().await;
    };
    axum::serve(listener, router).with_graceful_shutdown(ended).await.map_err(ServeError::Io)
}

struct Guarded {
    authentication: Option<Authentication>,
    access: Access,
    /// Held while a failure is delayed.
    failing: Mutex<()>,
}

async fn admit(State(guard): State<Arc<Guarded>>, mut request: Request, next: Next) -> Response {
    let host = text(request.headers(), &HOST).unwrap_or_default();
    if !guard.is_known(host) {
        return (StatusCode::MISDIRECTED_REQUEST, "this host name is not served here\n").into_response();
    }
    let Some(authentication) = &guard.authentication else { return next.run(request).await };
    let presented = text(request.headers(), &AUTHORIZATION);
    match presented.map(|header| authentication.user(header)) {
        Some(Some(user)) => {
            request.extensions_mut().insert(AuthenticatedUser(user));
            return next.run(request).await;
        }
        Some(None) => {
            let _one_at_a_time = guard.failing.lock().await;
            sleep(FAILURE_DELAY).await;
        }
        // A browser asks first without a secret.
        None => {}
    }
    let challenge = (WWW_AUTHENTICATE, "Basic realm=\"jobs\", charset=\"UTF-8\"");
    (StatusCode::UNAUTHORIZED, [challenge], "a token or a password is required\n").into_response()
}

impl Guarded {
    /// Without authentication, a name that an attacker owns could lead a browser here.
    fn is_known(&self, host: &str) -> bool {
        match &self.access.hosts {
            Some(hosts) => hosts.contains(&host.to_ascii_lowercase()),
            None if self.authentication.is_some() => true,
            None => is_loopback(host),
        }
    }
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _port)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
