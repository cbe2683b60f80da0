//! When a server ends: on a signal, or when whoever started it has closed its stdin.

use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::ended::Ended;

/// Cancelled on SIGINT, on SIGTERM, and, if asked for, at the end of stdin.
pub(crate) fn token(until_stdin_closes: bool) -> Result<CancellationToken, Ended> {
    let refused = |error: std::io::Error| Ended::refused("no signals", &error);
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate()).map_err(refused)?, signal(SignalKind::interrupt()).map_err(refused)?);
    // One that is stopped does not notice the end of stdin. The kernel tells it by the thread that started it, which for a
    // drive is the main one.
    #[cfg(target_os = "linux")]
    if until_stdin_closes {
        let told = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
        told.map_err(|error| Ended::refused("no signal at the parent's end", &error))?;
    }
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = stdin_closed(), if until_stdin_closes => {}
        }
        cancelled.cancel();
    });
    Ok(token)
}

async fn stdin_closed() {
    // A pipe whose other end is gone reads as empty, whatever became of the process that held it.
    let mut stdin = tokio::io::stdin();
    let mut ignored = [0; 64];
    while stdin.read(&mut ignored).await.is_ok_and(|read| read > 0) {}
}
