//! One connection, made anew when it fails, and asked for its durability each time.

use std::error::Error as StdError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, Value};
use tokio::time::timeout;

use super::durability::undurable;
use crate::connecting::Connecting;
use crate::store::StoreError;

/// How long a connect may take, with what the server is asked on it; a request's own bound is the caller's.
const CONNECT: Duration = Duration::from_secs(5);

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Connections(Arc<Inner>);

struct Inner {
    client: Client,
    checked: bool,
    current: Mutex<Current>,
    connecting: Connecting<StoreError>,
}

#[derive(Default)]
struct Current {
    /// How many connections there were before.
    number: u64,
    connection: Option<MultiplexedConnection>,
}

/// A connection to send a request on.
struct Found {
    number: u64,
    connection: MultiplexedConnection,
    /// It was waited for. Who did so may have no time left for an answer.
    is_new: bool,
}

impl Connections {
    pub(super) fn new(client: Client, checked: bool) -> Self {
        Self(Arc::new(Inner { client, checked, current: Mutex::default(), connecting: Connecting::default() }))
    }

    pub(super) fn client(&self) -> &Client {
        &self.0.client
    }

    /// Connects if there is no connection.
    pub(super) async fn check(&self) -> Result<(), StoreError> {
        self.get().await.map(drop)
    }

    /// The connection, made and checked if there is none. Whoever is dropped here leaves the connect to others.
    async fn get(&self) -> Result<Found, StoreError> {
        if let Some(found) = self.found(false) {
            return Ok(found);
        }
        let this = self.clone();
        self.0.connecting.to(0, || async move { this.connect().await }).await?;
        self.found(true).ok_or_else(|| StoreError::retryable("the new connection is lost already"))
    }

    async fn connect(&self) -> Result<(), StoreError> {
        if self.current().connection.is_some() {
            return Ok(());
        }
        let connected = timeout(CONNECT, self.connected()).await;
        let connection = connected.unwrap_or_else(|_| Err(StoreError::retryable("there is no connection in time")))?;
        let mut current = self.current();
        if current.connection.is_none() {
            *current = Current { number: current.number + 1, connection: Some(connection) };
        }
        Ok(())
    }

    async fn connected(&self) -> Result<MultiplexedConnection, StoreError> {
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(None);
        let connect = self.client().get_multiplexed_async_connection_with_config(&config);
        let mut connection = connect.await.map_err(refused)?;
        if self.0.checked
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
        let Found { number, connection, is_new } = self.get().await?;
        let mut doubted = Doubted { connections: self, number, is: !is_new };
        let answer = send(connection).await.map_err(store_error);
        doubted.is = answer.as_ref().is_err_and(StoreError::is_retryable);
        answer
    }

    fn found(&self, is_new: bool) -> Option<Found> {
        let current = self.current();
        let connection = current.connection.clone()?;
        Some(Found { number: current.number, connection, is_new })
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        // Nothing panics while it is locked.
        self.0.current.lock().unwrap_or_else(PoisonError::into_inner)
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
        if self.is && current.number == self.number {
            current.connection = None;
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

/// The server is one of a cluster, and the keys of the lock are another's.
#[derive(Debug, thiserror::Error)]
#[error(
    "this server is one of a cluster and has not the slot of the lock; a store asks one server, and follows to no other"
)]
struct OtherSlot(#[source] RedisError);

/// What the server has answered, it would answer again, but for a few states that pass.
fn store_error(error: RedisError) -> StoreError {
    const PASSING: [&str; 6] = ["LOADING", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY"];
    match error.code() {
        Some("MOVED" | "ASK") => StoreError::permanent(OtherSlot(error)),
        Some(code) if !PASSING.contains(&code) => StoreError::permanent(error),
        _ => StoreError::retryable(error),
    }
}
