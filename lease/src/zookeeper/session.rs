//! The session of a process, and the next one when it is over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;
use zookeeper_client::{Client, Connector, Error};

use crate::connecting::Connecting;
use crate::store::StoreError;

/// How long it may take to begin the session that all claims have in common.
const CONNECT: Duration = Duration::from_secs(10);

/// The session in use. Its client connects again by itself, for as long as the session lasts.
pub(super) struct Sessions {
    cluster: Box<str>,
    connector: Connector,
    current: Mutex<Option<Session>>,
    connecting: Connecting<StoreError>,
}

#[derive(Clone)]
pub(super) struct Session {
    pub(super) client: Client,
    /// Where its tasks run, and so what is left to do for it.
    pub(super) runtime: Handle,
}

impl Session {
    pub(super) fn id(&self) -> i64 {
        self.client.session_id().0
    }
}

impl Sessions {
    pub(super) fn new(cluster: Box<str>, connector: Connector) -> Self {
        Self { cluster, connector, current: Mutex::default(), connecting: Connecting::default() }
    }

    pub(super) fn cluster(&self) -> &str {
        &self.cluster
    }

    /// Whoever is dropped here leaves the connect to others.
    pub(super) async fn get(self: &Arc<Self>) -> Result<Session, StoreError> {
        if let Some(session) = self.found() {
            return Ok(session);
        }
        let this = Arc::clone(self);
        self.connecting.to(0, || async move { this.connect().await }).await?;
        self.found().ok_or_else(|| StoreError::retryable("the new session is over already"))
    }

    async fn connect(&self) -> Result<(), StoreError> {
        if self.found().is_some() {
            return Ok(());
        }
        let begun = timeout(CONNECT, self.another()).await;
        let session = begun.unwrap_or_else(|_| Err(StoreError::retryable("there is no session in time")))?;
        let mut current = self.current();
        if current.as_ref().is_none_or(|found| found.client.state().is_terminated()) {
            *current = Some(session);
        }
        Ok(())
    }

    /// A session of the caller's own, which is closed when it is dropped.
    pub(super) async fn another(&self) -> Result<Session, StoreError> {
        let client = self.connector.clone().connect(&self.cluster).await.map_err(store_error)?;
        Ok(Session { client, runtime: Handle::current() })
    }

    fn found(&self) -> Option<Session> {
        self.current().clone().filter(|session| !session.client.state().is_terminated())
    }

    fn current(&self) -> MutexGuard<'_, Option<Session>> {
        // Nothing panics while it is locked.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Client(#[from] Error),
    /// What the server says of its nodes is not what this store can rely on.
    #[error("{0}")]
    Unreliable(&'static str),
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Client(error) => store_error(error),
            failure @ Failure::Unreliable(_) => StoreError::permanent(failure),
        }
    }
}

/// What the server has judged by the request itself, it would judge again.
pub(super) fn store_error(error: Error) -> StoreError {
    match error {
        Error::BadArguments(_)
        | Error::NoAuth
        | Error::AuthFailed
        | Error::InvalidAcl
        | Error::NoChildrenForEphemerals
        | Error::QuotaExceeded
        | Error::MarshallingError
        | Error::UnmarshalError { .. }
        | Error::Unimplemented => StoreError::permanent(error),
        _ => StoreError::retryable(error),
    }
}
