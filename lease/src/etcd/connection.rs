//! One member of the cluster at a time, and the next one when it does not answer.

use std::error::Error as StdError;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, Error};

use crate::store::StoreError;

/// The codes of gRPC for not found, already exists, permission denied, failed precondition, out of range, and unimplemented.
const PERMANENT: [i32; 6] = [NOT_FOUND, 6, 7, 9, 11, 12];
const NOT_FOUND: i32 = 5;
/// The code for an invalid argument: a wrong password, no user at all, and also "revision of auth store is old". That one meets
/// every token from before a change of any user or role where tokens are JWT, and a request beside one where they are not.
const INVALID: i32 = 3;

/// So many clients, one after the other, whose first request is invalid, would be followed by more of the kind.
const MOST_INVALID: usize = 3;

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
    /// Whether it has had an answer.
    has_answered: bool,
    /// How many before it, one after the other, came to no connection over TLS.
    refused: usize,
    /// How many before it, one after the other, had nothing but the answer that what they asked was invalid.
    invalid: usize,
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
        let mut doubt = Doubt { logs_in: true, ..Doubt::of(self, number) };
        let endpoint = self.endpoints.get(number % self.endpoints.len().max(1)).map(String::as_str);
        let options = self.options.clone().with_connect_timeout(CONNECT);
        let connected = Client::connect(endpoint.as_slice(), Some(options)).await;
        let client = match connected {
            // Without a user to log in nothing was sent yet.
            Ok(client) => client,
            Err(error) => return doubt.judge(Err(error)),
        };
        doubt.outcome = Outcome::Open;
        self.current().client = Some(client.clone());
        Ok(Link { client, doubt: Doubt::of(self, number) })
    }

    /// Which client is in use; another number is another connection.
    pub(super) fn number(&self) -> usize {
        self.current().number
    }

    fn found(&self) -> Option<Link<'_>> {
        let current = self.current();
        let (number, client) = (current.number, current.client.clone()?);
        Some(Link { client, doubt: Doubt::of(self, number) })
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
    /// Nothing was asked yet but who the user is.
    logs_in: bool,
    outcome: Outcome,
}

/// What is known of a client.
#[derive(Clone, Copy)]
enum Outcome {
    /// No answer, and no reason that says more.
    Doubtful,
    /// The two cannot agree on a connection over TLS.
    Refused,
    /// It is no longer who it was, or asks what it must not.
    Invalid,
    /// It was not asked.
    Open,
    Answered,
}

impl<'a> Doubt<'a> {
    fn of(connections: &'a Connections, number: usize) -> Self {
        Self { connections, number, logs_in: false, outcome: Outcome::Doubtful }
    }

    fn judge<T>(mut self, answer: Result<T, Error>) -> Result<T, StoreError> {
        let error = match answer {
            Ok(answer) => {
                self.outcome = Outcome::Answered;
                return Ok(answer);
            }
            Err(error) => error,
        };
        if is_permanent(&error) || (self.logs_in && is_invalid(&error)) {
            self.outcome = Outcome::Answered;
            return Err(match error {
                // The client's error does not say what this one came of.
                Error::TransportError(error) => StoreError::permanent(error),
                error => StoreError::permanent(error),
            });
        }
        if is_of_tls(&error) {
            self.outcome = Outcome::Refused;
            if self.all_refuse() {
                return Err(StoreError::permanent(error));
            }
        }
        if is_invalid(&error) {
            self.outcome = Outcome::Invalid;
            if self.all_are_invalid() {
                return Err(StoreError::permanent(error));
            }
        }
        Err(StoreError::retryable(error))
    }

    /// Whether this is the last member, each of which was tried and came to no connection: another round would come to none either.
    fn all_refuse(&self) -> bool {
        let current = self.connections.current();
        let refused =
            if current.number == self.number && !current.has_answered { current.refused + 1 } else { current.refused };
        refused >= self.connections.endpoints.len().max(1)
    }

    /// Whether the client before it was told the same, and the one before that: logging in again has not helped.
    fn all_are_invalid(&self) -> bool {
        let current = self.connections.current();
        let first = current.number == self.number && !current.has_answered;
        current.invalid + usize::from(first) >= MOST_INVALID
    }
}

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        let mut current = self.connections.current();
        if current.number != self.number {
            return;
        }
        let (refused, invalid) = match self.outcome {
            Outcome::Open => return,
            Outcome::Answered => {
                // Where there is none yet, it was refused before it was asked anything.
                (current.has_answered, current.refused, current.invalid) = (current.client.is_some(), 0, 0);
                return;
            }
            Outcome::Refused if !current.has_answered => (current.refused + 1, 0),
            Outcome::Invalid if !current.has_answered => (0, current.invalid + 1),
            Outcome::Refused | Outcome::Invalid | Outcome::Doubtful => (0, 0),
        };
        *current = Current { number: self.number.wrapping_add(1), refused, invalid, ..Current::default() };
    }
}

/// What the server has judged by the request itself, it would judge again; and so what the client cannot make sense of, such as
/// a certificate that is none. A token that has run out (`Unauthenticated`) is not among them: the next client gets another.
fn is_permanent(error: &Error) -> bool {
    match error {
        Error::GRpcStatus(status) => PERMANENT.contains(&i32::from(status.code())),
        Error::InvalidArgs(_) | Error::InvalidUri(_) | Error::InvalidMetadataValue(_) | Error::TransportError(_) => {
            true
        }
        _ => false,
    }
}

/// Whether it may be that who asks is known no longer: another client logs in anew.
fn is_invalid(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if i32::from(status.code()) == INVALID)
}

/// Whether it is of the connection's TLS: rustls says that what it was sent is no valid data, a certificate that it does not trust or
/// the news that its own is not trusted.
fn is_of_tls(error: &Error) -> bool {
    let Error::GRpcStatus(status) = error else { return false };
    let mut sources = std::iter::successors(StdError::source(status), |&source| source.source());
    sources.any(|source| {
        source.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::InvalidData)
    })
}

/// Whether the server says that what the request names, a lease, is not there.
pub(super) fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(status) if i32::from(status.code()) == NOT_FOUND)
}
