//! One of several Redis: its connection, and one request within a limit.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Client, Script, Value};
use tokio::time::timeout;

use super::super::connection::Connections;
use crate::store::StoreError;

pub(super) struct Node(Connections);

impl Node {
    pub(super) fn new(client: Client) -> Self {
        Self(Connections::new(client, false))
    }

    /// Runs one script here, if it is answered within the limit. A connect that takes longer goes on.
    pub(super) async fn run(
        &self,
        script: &Script,
        keys: &[Vec<u8>],
        arguments: &[Vec<u8>],
        limit: Duration,
    ) -> Result<Value, StoreError> {
        let request = self.0.request(async |mut connection: MultiplexedConnection| {
            let mut invocation = script.prepare_invoke();
            for key in keys {
                invocation.key(&key[..]);
            }
            for argument in arguments {
                invocation.arg(&argument[..]);
            }
            invocation.invoke_async(&mut connection).await
        });
        timeout(limit, request).await.unwrap_or_else(|_| Err(StoreError::retryable("a node did not answer in time")))
    }
}
