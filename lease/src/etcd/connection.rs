//! One member of the cluster at a time, and the next one when it does not answer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, Error};

use crate::store::StoreError;

/// The codes of gRPC for an invalid argument, not found, already exists, permission denied, failed precondition, out of range,
/// and unimplemented.
const PERMANENT: [i32; 7] = [3, NOT_FOUND, 6, 7, 9, 11, 12];
const NOT_FOUND: i32 = 5;

/// How long a connect may take; a request's own bound is the caller's.
const CONNECT: Duration = Duration::from_secs(5);

/// The client, made anew on each doubt. A connection behind which nobody answers any more looks like a slow one for a long
/// time, and whoever opens a new stream on it waits as well.
pub(super) struct Connections {
    endpoints: Box<[String]>,
    options: ConnectOptions,
    current: Mutex<Current>,
    /// Those who find none wait for the one who connects.
    connecting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Current {
    /// How many clients were given up.
    number: usize,
    client: Option<Client>,
}

impl Connections {
    pub(super) fn new(endpoints: Box<[String]>, options: ConnectOptions) -> Self {
        Self { endpoints, options, current: Mutex::default(), connecting: tokio::sync::Mutex::default() }
    }

    pub(super) fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    /// The client, for one request or several that belong together.
    pub(super) async fn get(&self) -> Result<Link<'_>, StoreError> {
        if let Some(link) = self.found() {
            return Ok(link);
        }
        let _alone = self.connecting.lock().await;
        if let Some(link) = self.found() {
            return Ok(link);
        }
        let number = self.current().number;
        // Who is dropped here has waited for this member for long enough.
        let doubt = Doubt { connections: self, number, is: true };
        let endpoint = self.endpoints.get(number % self.endpoints.len().max(1)).map(String::as_str);
        let options = self.options.clone().with_connect_timeout(CONNECT);
        let connected = Client::connect(endpoint.as_slice(), Some(options)).await;
        let client = doubt.judge(connected)?;
        self.current().client = Some(client.clone());
        Ok(Link { client, doubt: Doubt { connections: self, number, is: true } })
    }

    /// Which client is in use; another number is another connection.
    pub(super) fn number(&self) -> usize {
        self.current().number
    }

    fn found(&self) -> Option<Link<'_>> {
        let current = self.current();
        let (number, client) = (current.number, current.client.clone()?);
        Some(Link { client, doubt: Doubt { connections: self, number, is: true } })
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        // Nothing panics while it is locked.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client in use. Dropped before there was an answer, it is given up: the next request goes to the next member, on a
/// connection of its own.
pub(super) struct Link<'a> {
    pub(super) client: Client,
    doubt: Doubt<'a>,
}

impl Link<'_> {
    pub(super) fn number(&self) -> usize {
        self.doubt.number
    }

    /// Takes what came of the requests.
    pub(super) fn judge<T>(self, answer: Result<T, Error>) -> Result<T, StoreError> {
        self.doubt.judge(answer)
    }
}

struct Doubt<'a> {
    connections: &'a Connections,
    number: usize,
    is: bool,
}

impl Doubt<'_> {
    fn judge<T>(mut self, answer: Result<T, Error>) -> Result<T, StoreError> {
        let answer = answer.map_err(store_error);
        self.is = answer.as_ref().is_err_and(StoreError::is_retryable);
        answer
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        let mut current = self.connections.current();
        if self.is && current.number == self.number {
            *current = Current { number: self.number.wrapping_add(1), client: None };
        }
    }
}

/// What the server has judged by the request itself, it would judge again.
fn store_error(error: Error) -> StoreError {
    let permanent = match &error {
        Error::GRpcStatus(status) => PERMANENT.contains(&i32::from(status.code())),
        Error::InvalidArgs(_) | Error::InvalidUri(_) | Error::InvalidMetadataValue(_) => true,
        // A token that has run out (`Unauthenticated`) among them: the next client gets another.
        _ => false,
    };
    if permanent { StoreError::permanent(error) } else { StoreError::retryable(error) }
}

/// Whether the server says that what the request names, a lease, is not there.
pub(super) fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if i32::from(status.code()) == NOT_FOUND)
}
