//! One member of the cluster at a time, and the next one when it does not answer.

use std::error::Error as StdError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, Error};
use tokio::time::timeout;

use crate::connecting::Connecting;
use crate::store::StoreError;

/// The codes of gRPC for not found, already exists, permission denied, failed precondition, out of range, and unimplemented.
const PERMANENT: [i32; 6] = [NOT_FOUND, 6, 7, 9, 11, 12];
const NOT_FOUND: i32 = 5;
/// The code for an invalid argument: a wrong password, no user at all, and also "revision of auth store is old". That one meets
/// every token from before a change of any user or role where tokens are JWT, and a request beside one where they are not.
const INVALID: i32 = 3;
const UNAUTHENTICATED: i32 = 16;

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
    connecting: Connecting<Failed>,
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
        Self { endpoints, options, current: Mutex::default(), connecting: Connecting::default() }
    }

    pub(super) fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    /// The client, for one request or several that belong together. Whoever is dropped here leaves the connect to others, and the
    /// next one goes to the next member.
    pub(super) async fn get(self: &Arc<Self>) -> Result<Link<'_>, StoreError> {
        if let Some(link) = self.found(Outcome::Doubtful) {
            return Ok(link);
        }
        let number = self.current().number;
        let mut doubt = Doubt { connections: self, number, connects: true, outcome: Outcome::Doubtful };
        let (this, member) = (Arc::clone(self), number % self.endpoints.len().max(1));
        if let Err(failed) = self.connecting.to(member, || this.connect(member)).await {
            return Err(doubt.meets(failed));
        }
        doubt.outcome = Outcome::Open;
        // Who has waited for the connect may have no time left for an answer, and its end says nothing of the client.
        self.found(Outcome::Open).ok_or_else(|| StoreError::retryable("the new connection is given up already"))
    }

    async fn connect(self: Arc<Self>, member: usize) -> Result<(), Failed> {
        if self.current().client.is_some() {
            return Ok(());
        }
        let connected = timeout(CONNECT, self.connected(member)).await;
        let silent = |_| Err(Failed::new(Failure::Passing, "there is no connection in time"));
        let client = connected.unwrap_or_else(silent)?;
        // Another member may have been faster.
        self.current().client.get_or_insert(client);
        Ok(())
    }

    /// Logs in, and asks for something that needs no rights: without a user nothing would have been sent yet, and the first request
    /// would have to wait for the connection.
    async fn connected(&self, member: usize) -> Result<Client, Failed> {
        let endpoint = self.endpoints.get(member).map(String::as_str);
        let options = self.options.clone().with_connect_timeout(CONNECT);
        let client = Client::connect(endpoint.as_slice(), Some(options)).await.map_err(Failed::of_login)?;
        match client.maintenance_client().status().await {
            Err(error) if !is_answer(&error) => Err(Failed::of(error)),
            _ => Ok(client),
        }
    }

    /// Which client is in use; another number is another connection.
    pub(super) fn number(&self) -> usize {
        self.current().number
    }

    fn found(&self, unanswered: Outcome) -> Option<Link<'_>> {
        let current = self.current();
        let (number, client) = (current.number, current.client.clone()?);
        let doubt = Doubt { connections: self, number, connects: false, outcome: unanswered };
        Some(Link { client, doubt })
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
    pub(super) fn judge<T>(mut self, answer: Result<T, Error>) -> Result<T, StoreError> {
        match answer {
            Ok(answer) => {
                self.doubt.outcome = Outcome::Answered;
                Ok(answer)
            }
            Err(error) => Err(self.doubt.meets(Failed::of(error))),
        }
    }
}

struct Doubt<'a> {
    connections: &'a Connections,
    number: usize,
    /// There is no client yet.
    connects: bool,
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

impl Doubt<'_> {
    fn meets(&mut self, Failed { failure, source }: Failed) -> StoreError {
        let (outcome, is_final) = match failure {
            Failure::Permanent => (Outcome::Answered, true),
            Failure::Invalid => (Outcome::Invalid, self.all_are_invalid()),
            Failure::OfTls => (Outcome::Refused, self.all_refuse()),
            Failure::Passing => (Outcome::Doubtful, false),
            Failure::Answered => (Outcome::Answered, false),
        };
        self.outcome = outcome;
        StoreError::shared(!is_final, source)
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
        // Another connect may have come to its end since.
        if current.number != self.number || (self.connects && current.client.is_some()) {
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

/// Why there is no answer, or what it was. Several may have waited for it.
#[derive(Debug, Clone)]
struct Failed {
    failure: Failure,
    source: Arc<dyn StdError + Send + Sync>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// What the server has judged by the request itself, it would judge again; and so what the client cannot make sense of, such as a
    /// certificate that is none. A token that has run out (`Unauthenticated`) is not among them: the next client gets another.
    Permanent,
    /// Who asks may be known no longer: another client logs in anew.
    Invalid,
    /// The two cannot agree on a connection over TLS.
    OfTls,
    Passing,
    /// The server has answered, and the next attempt may fare better.
    Answered,
}

impl Failed {
    fn new(failure: Failure, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { failure, source: source.into().into() }
    }

    fn of(error: Error) -> Self {
        let code = code(&error);
        match error {
            // The client's error does not say what this one came of.
            Error::TransportError(error) => Self::new(Failure::Permanent, error),
            Error::InvalidArgs(_) | Error::InvalidUri(_) | Error::InvalidMetadataValue(_) => {
                Self::new(Failure::Permanent, error)
            }
            // What this store makes of answers that do not fit together; keep-alives are judged before.
            Error::LeaseKeepAliveError(_) => Self::new(Failure::Answered, error),
            _ if code.is_some_and(|code| PERMANENT.contains(&code)) => Self::new(Failure::Permanent, error),
            _ if code == Some(INVALID) => Self::new(Failure::Invalid, error),
            _ if is_of_tls(&error) => Self::new(Failure::OfTls, error),
            _ => Self::new(Failure::Passing, error),
        }
    }

    /// A wrong password would be wrong again.
    fn of_login(error: Error) -> Self {
        let failed = Self::of(error);
        let failure = if failed.failure == Failure::Invalid { Failure::Permanent } else { failed.failure };
        Self { failure, ..failed }
    }
}

/// Whether the server has said something, if only that it will not do it.
fn is_answer(error: &Error) -> bool {
    code(error).is_some_and(|code| PERMANENT.contains(&code) || code == INVALID || code == UNAUTHENTICATED)
}

fn code(error: &Error) -> Option<i32> {
    if let Error::GRpcStatus(status) = error { Some(status.code().into()) } else { None }
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
    code(error) == Some(NOT_FOUND)
}
