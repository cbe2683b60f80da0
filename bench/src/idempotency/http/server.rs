//! A server on loopback for one turn.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long connections may take to end whose client is gone.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// Serves until it is stopped, or dropped.
#[derive(Debug)]
pub(super) struct Server {
    address: SocketAddr,
    accepted: Arc<AtomicU64>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<io::Result<()>>,
}

impl Server {
    pub(super) async fn start(router: Router) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("loopback has no free port")?;
        let address = listener.local_addr()?;
        let accepted = Arc::<AtomicU64>::default();
        let counter = Arc::clone(&accepted);
        let listener = listener.tap_io(move |stream| {
            counter.fetch_add(1, Relaxed);
            // Without it a latency may be that of a delayed acknowledgement; a stream that refuses is at its end anyway.
            let _ = stream.set_nodelay(true);
        });
        let (stop, stopped) = oneshot::channel();
        // The sender's end means the same as its word.
        let shutdown = async { _ = stopped.await };
        let serving = tokio::spawn(axum::serve(listener, router).with_graceful_shutdown(shutdown).into_future());
        Ok(Self { address, accepted, stop, serving })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until all connections have ended; answers how many there were.
    pub(super) async fn stop(self) -> anyhow::Result<u64> {
        let Self { accepted, stop, serving, .. } = self;
        // The other end is gone if serving has ended by itself, which is what is waited for.
        let _ = stop.send(());
        timeout(STOP_LIMIT, serving).await.context("a connection does not end")???;
        Ok(accepted.load(Relaxed))
    }
}
