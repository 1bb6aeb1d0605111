//! `jobsctl dashboard`: web pages about the fleet.

use jobs::Jobs;
use jobs::dashboard::{Authentication, Dashboard, serve as serve_on};
use tokio::net::TcpListener;

use crate::act::user_and_host;
use crate::args;
use crate::failure::{Answer, Failure};

pub(crate) async fn serve(
    options: &args::Options,
    jobs: &Jobs,
    arguments: &args::Dashboard,
) -> Result<Answer, Failure> {
    let actor = options.by.clone().unwrap_or_else(user_and_host);
    let mut dashboard = Dashboard::new(jobs.by(actor)).title(arguments.title.as_str());
    if arguments.actions {
        dashboard = dashboard.allow_actions(|_, _| true);
    }
    let authentication = arguments.token_file.as_deref().map(token).transpose()?;
    let listener = TcpListener::bind(arguments.listen).await;
    let listener = listener
        .map_err(|error| Failure::System(format!("failed to listen on {}: {error}", arguments.listen)))?;
    let address = listener.local_addr().map_err(|error| Failure::System(error.to_string()))?;
    if authentication.is_none() && !address.ip().is_loopback() {
        return Err(Failure::Usage(format!(
            "{address} may be reached from other machines; pass --token-file, or listen on 127.0.0.1"
        )));
    }
    report!("serving http://{address}/; ctrl-c ends");
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => Ok(Answer::Good),
        served = serve_on(listener, dashboard, authentication) => match served {
            Ok(()) => Ok(Answer::Good),
            Err(error) => Err(Failure::System(error.to_string())),
        },
    }
}

fn token(file: &str) -> Result<Authentication, Failure> {
    let token = std::fs::read_to_string(file);
    let token = token.map_err(|error| Failure::System(format!("failed to read {file}: {error}")))?;
    Ok(Authentication::token(token.trim()))
}
