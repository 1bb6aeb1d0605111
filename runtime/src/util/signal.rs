//! Signals of the operating system.

/// Resolves on SIGTERM or ctrl-c.
pub(crate) async fn terminated() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                () = interrupted() => {}
            }
            return;
        }
    }
    interrupted().await;
}

async fn interrupted() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        tracing::error!(target: "jobs", %error, "failed to listen for ctrl-c; stop this process by other means");
        std::future::pending::<()>().await;
    }
}
