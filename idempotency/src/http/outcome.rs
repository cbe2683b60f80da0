//! What becomes of a key once its handler has answered, or never will.

use http::{HeaderValue, StatusCode};

/// What becomes of a key whose handler has answered, in replay mode.
///
/// By default the status says it ([`of_status`](Self::of_status)). A handler that knows better says so itself: it puts an
/// `Outcome` into the extensions of its response, which goes before every other rule.
///
/// ```
/// use http::{Response, StatusCode};
/// use leastlock_idempotency::http::Outcome;
///
/// // The provider was not asked yet: nothing has happened, and a repeat may run.
/// let mut busy = Response::new("try again later");
/// *busy.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
/// busy.extensions_mut().insert(Outcome::Release);
/// assert_eq!(Outcome::of_status(busy.status()), Outcome::Hold, "without it nobody could know");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The answer is stored, and every repeat gets it, an error like any other.
    Complete,
    /// It has happened, and its answer must not be stored: a one-time password, a signed address. The key is completed, and
    /// every repeat gets [`Problem::AnswerNotKept`](super::Problem::AnswerNotKept) with the answer's status. Nothing else of the answer
    /// is stored, its `Location` only as far as the handler asks for it with a [`Reference`]. The body reaches its client as it is
    /// made, however long.
    ///
    /// An answer that must not lie there in clear, but is to be replayed, is sealed instead: see
    /// [`cipher`](crate::phased::PhasedBuilder::cipher).
    CompleteUnkept,
    /// Nothing has happened: the key is free, and a repeat runs.
    Release,
    /// Whether something has happened is not known: the key is held until somebody finds out, and no repeat runs.
    Hold,
}

impl Outcome {
    /// What a status means where the handler says nothing.
    ///
    /// | status | outcome | why |
    /// |---|---|---|
    /// | 2xx, 3xx | `Complete` | it has happened |
    /// | 408 | `Hold` | a time-out below the layer has dropped the handler, wherever it was |
    /// | 425, 429 | `Hold` | they speak of the moment and of nothing that happened before it: a handler that has charged and is then throttled by somebody else passes them on |
    /// | other 4xx, 409 included | `Complete` | that is how the request ended |
    /// | 5xx, 1xx | `Hold` | the handler did not get to its end, or not to one that is an answer; its effects may be there |
    ///
    /// No status frees a key: that nothing has happened is known to the handler alone, who says [`Release`](Self::Release). What
    /// refuses requests before they get to a handler, such as a rate limiter, belongs outside the layer.
    #[must_use]
    pub fn of_status(status: StatusCode) -> Self {
        match status.as_u16() {
            408 | 425 | 429 => Self::Hold,
            200..=499 => Self::Complete,
            _ => Self::Hold,
        }
    }
}

/// Where a client finds what its request made, for an answer that is not stored ([`Outcome::CompleteUnkept`]): the `Location` of
/// the 410 that repeats get. A handler puts it into the extensions of its response. It is stored, so it is no secret itself.
///
/// ```
/// use http::{HeaderValue, Response};
/// use leastlock_idempotency::http::{Outcome, Reference};
///
/// let mut shown_once = Response::new("the new API key, in clear");
/// shown_once.extensions_mut().insert(Outcome::CompleteUnkept);
/// shown_once.extensions_mut().insert(Reference(HeaderValue::from_static("/api-keys/17")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference(pub HeaderValue);

/// What becomes of a key whose handler was lost with its process, in replay mode: its lease is over, and nobody has said how it
/// ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Abandoned {
    /// The key is held: the effects may be there, so nothing runs until somebody finds out.
    #[default]
    Hold,
    /// A repeat runs the handler again. Right only if everything that the handler does absorbs a repeat by itself: it passes the
    /// request's [`Key`](crate::Key) on to a provider that deduplicates, or writes with a unique key.
    RunAgain,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_status_frees_its_key_and_no_failure_is_an_answer() {
        for status in (100..1000).filter_map(|code| StatusCode::from_u16(code).ok()) {
            let outcome = Outcome::of_status(status);
            assert!(matches!(outcome, Outcome::Complete | Outcome::Hold), "{status}");
            if status.is_server_error() || status.is_informational() {
                assert_eq!(outcome, Outcome::Hold, "{status}");
            }
        }
    }
}
