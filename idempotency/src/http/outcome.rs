//! What becomes of a key once its handler has answered, or never will.

use http::StatusCode;

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
            assert_ne!(outcome, Outcome::Release, "{status}");
            if status.is_server_error() || status.is_informational() {
                assert_eq!(outcome, Outcome::Hold, "{status}");
            }
        }
    }
}
