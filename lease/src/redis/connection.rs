//! One connection, made anew when it fails, and asked for its durability each time.

use std::error::Error as StdError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, Value};

use super::durability::undurable;
use crate::store::StoreError;

/// How long a connect may take; a request's own bound is the caller's.
const CONNECT: Duration = Duration::from_secs(5);

pub(super) struct Connections {
    client: Client,
    checked: bool,
    /// The connection in use, and how many there were before it.
    current: Mutex<(u64, Option<MultiplexedConnection>)>,
    /// Those who find none wait for the one who connects.
    connecting: tokio::sync::Mutex<()>,
}

impl Connections {
    pub(super) fn new(client: Client, checked: bool) -> Self {
        Self { client, checked, current: Mutex::default(), connecting: tokio::sync::Mutex::default() }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// The connection, made and checked if there is none.
    pub(super) async fn get(&self) -> Result<(u64, MultiplexedConnection), StoreError> {
        if let Some(found) = self.found() {
            return Ok(found);
        }
        let _alone = self.connecting.lock().await;
        if let Some(found) = self.found() {
            return Ok(found);
        }
        let connection = self.connect().await?;
        let mut current = self.current();
        current.0 += 1;
        current.1 = Some(connection.clone());
        Ok((current.0, connection))
    }

    async fn connect(&self) -> Result<MultiplexedConnection, StoreError> {
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(None);
        let connect = self.client.get_multiplexed_async_connection_with_config(&config);
        let mut connection = connect.await.map_err(refused)?;
        if self.checked
            && let Some(undurable) = undurable(&mut connection).await.map_err(store_error)?
        {
            return Err(StoreError::permanent(undurable));
        }
        Ok(connection)
    }

    /// Sends one request. A connection that failed, or on which an answer was not waited for, is not used again: the next
    /// request asks a new one, and so learns whether the server is still the one that it was.
    pub(super) async fn request(
        &self,
        send: impl AsyncFnOnce(MultiplexedConnection) -> Result<Value, RedisError>,
    ) -> Result<Value, StoreError> {
        self.request_on(self.get().await?, send).await
    }

    /// The same, unless it would have to connect first.
    pub(super) async fn request_if_connected(
        &self,
        send: impl AsyncFnOnce(MultiplexedConnection) -> Result<Value, RedisError>,
    ) -> Result<Value, StoreError> {
        let found = self.found().ok_or_else(|| StoreError::retryable("there is no connection"))?;
        self.request_on(found, send).await
    }

    /// Whether there is a connection; it may have failed meanwhile.
    pub(super) fn is_connected(&self) -> bool {
        self.current().1.is_some()
    }

    async fn request_on(
        &self,
        (number, connection): (u64, MultiplexedConnection),
        send: impl AsyncFnOnce(MultiplexedConnection) -> Result<Value, RedisError>,
    ) -> Result<Value, StoreError> {
        let mut doubted = Doubted { connections: self, number, is: true };
        let answer = send(connection).await.map_err(store_error);
        doubted.is = answer.as_ref().is_err_and(StoreError::is_retryable);
        answer
    }

    fn found(&self) -> Option<(u64, MultiplexedConnection)> {
        let current = self.current();
        current.1.clone().map(|connection| (current.0, connection))
    }

    fn current(&self) -> MutexGuard<'_, (u64, Option<MultiplexedConnection>)> {
        // Nothing panics while it is locked.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection of which nobody knows whether it still answers; given up when this is dropped, unless an answer came.
struct Doubted<'a> {
    connections: &'a Connections,
    number: u64,
    is: bool,
}

impl Drop for Doubted<'_> {
    fn drop(&mut self) {
        let mut current = self.connections.current();
        if self.is && current.0 == self.number {
            current.1 = None;
        }
    }
}

/// Why there is no connection. A certificate or a password that was refused would be refused again. (To a client a server that has no
/// room for another one, `maxclients`, looks as if it refused the password.)
fn refused(error: RedisError) -> StoreError {
    if error.kind() == ErrorKind::AuthenticationFailed || is_of_tls(&error) {
        return StoreError::permanent(error);
    }
    store_error(error)
}

/// Whether the two could not agree on a connection over TLS: rustls says that what it was sent is no valid data.
fn is_of_tls(error: &RedisError) -> bool {
    let inner = error.source().and_then(|source| source.downcast_ref::<Arc<dyn StdError + Send + Sync>>());
    let io = inner.and_then(|inner| inner.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::InvalidData)
}

/// What the server has answered, it would answer again, but for a few states that pass.
fn store_error(error: RedisError) -> StoreError {
    const PASSING: [&str; 7] = ["LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "MOVED"];
    match error.code() {
        Some(code) if !PASSING.contains(&code) => StoreError::permanent(error),
        _ => StoreError::retryable(error),
    }
}
