//! When the operating system asks a worker to stop.

/// Resolves on SIGTERM or ctrl-c.
pub(crate) async fn wanted_to_stop() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminated.recv() => {}
                () = interrupted() => {}
            }
            return;
        }
    }
    interrupted().await;
}

async fn interrupted() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        tracing::error!(target: "jobs", %error, "ctrl-c cannot be waited for; stop this process by other means");
        std::future::pending::<()>().await;
    }
}
