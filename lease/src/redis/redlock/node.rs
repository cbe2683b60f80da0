//! One of several Redis: its connection, and one request within a limit.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, Script, Value};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::super::connection::Connections;
use crate::store::StoreError;

pub(super) struct Node {
    connections: Connections,
    connects: AtomicBool,
    connected: Notify,
    /// Why the last connect failed, until it was told.
    failure: Mutex<Option<StoreError>>,
}

impl Node {
    pub(super) fn new(client: Client) -> Self {
        let connections = Connections::new(client, false);
        Self { connections, connects: AtomicBool::new(false), connected: Notify::new(), failure: Mutex::default() }
    }

    /// Runs one script here, if it is answered within the limit.
    pub(super) async fn run(
        self: &Arc<Self>,
        script: &Script,
        keys: &[Vec<u8>],
        arguments: &[Vec<u8>],
        limit: Duration,
    ) -> Result<Value, StoreError> {
        let ends = Instant::now() + limit;
        self.connect(ends).await;
        if !self.connections.is_connected()
            && let Some(failure) = self.failure().take()
        {
            return Err(failure);
        }
        let request = self.connections.request_if_connected(async |mut connection: MultiplexedConnection| {
            let mut invocation = script.prepare_invoke();
            for key in keys {
                invocation.key(&key[..]);
            }
            for argument in arguments {
                invocation.arg(&argument[..]);
            }
            invocation.invoke_async(&mut connection).await
        });
        timeout_at(ends, request).await.unwrap_or_else(|_| Err(StoreError::retryable("a node did not answer in time")))
    }

    /// Connects if it is not connected, and waits for that as long as a request may take. The connect itself goes on: it may
    /// take longer, and would never come to its end otherwise.
    async fn connect(self: &Arc<Self>, ends: Instant) {
        let mut connected = std::pin::pin!(self.connected.notified());
        connected.as_mut().enable();
        if self.connections.is_connected() {
            return;
        }
        if !self.connects.swap(true, Ordering::AcqRel) {
            let node = Arc::clone(self);
            tokio::spawn(async move {
                let _done = Connected(&node);
                // Whoever asks next tries again.
                let failure = node.connections.get().await.err();
                *node.failure() = failure;
            });
        }
        let _over = timeout_at(ends, connected).await;
    }

    fn failure(&self) -> MutexGuard<'_, Option<StoreError>> {
        // Nothing panics while it is locked.
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells that a connect is over, however it ended.
struct Connected<'a>(&'a Node);

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.connects.store(false, Ordering::Release);
        self.0.connected.notify_waiters();
    }
}
