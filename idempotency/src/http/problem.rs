//! What the layer answers instead of the handler: `application/problem+json` (RFC 9457).

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LANGUAGE, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

use self::text::Text;
pub use self::text::type_uri;
use crate::error::Error;

mod text;

/// When a store that failed is worth asking again.
pub(super) const STORE_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why a request was not answered by its handler. A response of the layer's own carries it in its extensions.
///
/// | problem | status | `type` | what the client does |
/// |---|---|---|---|
/// | `KeyMissing` | 400 | [`KEY_MISSING`](type_uri::KEY_MISSING) | sends a key |
/// | `KeyRepeated` | 400 | [`KEY_REPEATED`](type_uri::KEY_REPEATED) | sends one key |
/// | `KeyMalformed` | 400 | [`KEY_MALFORMED`](type_uri::KEY_MALFORMED) | quotes the key, takes a UUID |
/// | `Unscoped` | as the scope function says, 400 by default | [`UNSCOPED`](type_uri::UNSCOPED) | says who it is |
/// | `LengthRequired` | 411 | [`LENGTH_REQUIRED`](type_uri::LENGTH_REQUIRED) | sends `Content-Length` |
/// | `BodyTooLarge` | 413 | [`BODY_TOO_LARGE`](type_uri::BODY_TOO_LARGE) | sends less |
/// | `BodyTooSlow` | 408 | [`BODY_TOO_SLOW`](type_uri::BODY_TOO_SLOW) | sends it again, same key |
/// | `BodyUnreadable` | 400 | [`BODY_UNREADABLE`](type_uri::BODY_UNREADABLE) | sends it again, same key |
/// | `Mismatch` | 422 | [`MISMATCH`](type_uri::MISMATCH) | takes a new key for a new request |
/// | `InFlight` | 409, `Retry-After` | [`IN_FLIGHT`](type_uri::IN_FLIGHT) | asks again, same key |
/// | `OutcomeUnknown` | 409 | [`OUTCOME_UNKNOWN`](type_uri::OUTCOME_UNKNOWN) | waits for somebody to find out; never takes a new key |
/// | `AnswerNotKept` | 410 | [`ANSWER_NOT_KEPT`](type_uri::ANSWER_NOT_KEPT) | reads what its request made |
/// | `AnswerUnreadable` | 500 | [`ANSWER_UNREADABLE`](type_uri::ANSWER_UNREADABLE) | reads what its request made |
/// | `HandlerFailed` | 500 | [`HANDLER_FAILED`](type_uri::HANDLER_FAILED) | as for `OutcomeUnknown` |
/// | `NotRecorded` | 503, `Retry-After` | [`NOT_RECORDED`](type_uri::NOT_RECORDED) | asks again, same key |
/// | `Overloaded` | 503, `Retry-After` | [`OVERLOADED`](type_uri::OVERLOADED) | asks again, same key |
/// | `StoreFailed` | 503, `Retry-After` if that can help | [`STORE_FAILED`](type_uri::STORE_FAILED) | asks again, same key |
///
/// 400, 409 and 422 for a missing key, one in flight and one reused are the draft's (section 2.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The method needs a key and there is none. There is no record that requests without a key would share.
    KeyMissing,
    /// There is more than one key header.
    KeyRepeated,
    /// The header is not a string of RFC 8941 (in double quotes) of 1 to 255 visible ASCII characters.
    KeyMalformed,
    /// The scope function did not say whose key it is.
    Unscoped {
        /// What it answers.
        status: StatusCode,
    },
    /// The length of the body is not known from the start, and the layer is set to need it.
    LengthRequired,
    /// The body is larger than the limit; the handler did not run.
    BodyTooLarge {
        /// In bytes.
        limit: usize,
    },
    /// The body did not come in time; the handler did not run.
    BodyTooSlow,
    /// The body broke off; the handler did not run.
    BodyUnreadable,
    /// The key was used for a request that says something else. Nothing ran.
    Mismatch,
    /// The first request with this key is still running.
    InFlight {
        /// When asking again makes sense.
        retry_after: Duration,
    },
    /// An earlier request with this key ended without a known outcome: its effects may be there or not, so it is not run
    /// again. It is held until somebody resolves it.
    OutcomeUnknown,
    /// The request ran and its answer was not kept: for its size, for its trailers, or because its handler says that it must not be
    /// stored ([`Outcome::CompleteUnkept`](super::Outcome::CompleteUnkept)). It is not run again.
    AnswerNotKept {
        /// The status of the answer.
        status: StatusCode,
    },
    /// The request ran, and its answer cannot be read as an HTTP response. It is not run again.
    AnswerUnreadable,
    /// The handler gave no answer: it panicked, took too long, or its answer broke off. Its effects may be there.
    HandlerFailed,
    /// The handler ran and its answer could not be recorded under the key, so it is not given out: asking again with the
    /// same key tells what became of it.
    NotRecorded {
        /// When asking again makes sense.
        retry_after: Duration,
    },
    /// As many handlers are running as the layer allows; this one did not run.
    Overloaded {
        /// When asking again makes sense.
        retry_after: Duration,
    },
    /// The store failed. From the layer itself: before the handler ran, since a request is never let through unprotected.
    StoreFailed {
        /// When asking again makes sense; `None` where it would fail again.
        retry_after: Option<Duration>,
    },
}

impl Problem {
    /// The status code.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::KeyMissing | Self::KeyRepeated | Self::KeyMalformed | Self::BodyUnreadable => StatusCode::BAD_REQUEST,
            Self::Unscoped { status } => status,
            Self::LengthRequired => StatusCode::LENGTH_REQUIRED,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Mismatch => StatusCode::UNPROCESSABLE_ENTITY,
            Self::InFlight { .. } | Self::OutcomeUnknown => StatusCode::CONFLICT,
            Self::AnswerNotKept { .. } => StatusCode::GONE,
            Self::AnswerUnreadable | Self::HandlerFailed => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NotRecorded { .. } | Self::Overloaded { .. } | Self::StoreFailed { .. } => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    /// The `type`: one of [`type_uri`].
    #[must_use]
    pub fn type_uri(self) -> &'static str {
        self.text().type_uri
    }

    /// The last part of the `type` where [`problem_docs`](super::LayerBuilder::problem_docs) is set, and the value of the
    /// metric's label: `key-missing`.
    #[must_use]
    pub fn slug(self) -> &'static str {
        self.text().slug
    }

    /// How long to wait before asking again with the same key.
    #[must_use]
    pub const fn retry_after(self) -> Option<Duration> {
        match self {
            Self::InFlight { retry_after } | Self::NotRecorded { retry_after } | Self::Overloaded { retry_after } => {
                Some(retry_after)
            }
            Self::StoreFailed { retry_after } => retry_after,
            _ => None,
        }
    }

    /// The problem as a response, such as a handler in extract mode returns; axum's `Response` is one.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use leastlock_idempotency::http::{Problem, type_uri};
    ///
    /// let response: http::Response<Bytes> = Problem::Mismatch.response();
    /// assert_eq!(response.status(), 422);
    /// assert_eq!(response.headers()["content-type"], "application/problem+json");
    /// let body: serde_json::Value = serde_json::from_slice(response.body())?;
    /// assert_eq!(body["type"], type_uri::MISMATCH);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn response<B: From<Bytes>>(self) -> Response<B> {
        self.response_documented(None)
    }

    /// The same with a `type` below `docs`, if there is one.
    pub(super) fn response_documented<B: From<Bytes>>(self, docs: Option<&str>) -> Response<B> {
        let Text { type_uri, slug, title, detail } = self.text();
        let document = Document {
            type_uri: docs.map_or(Cow::Borrowed(type_uri), |docs| Cow::Owned(format!("{docs}{slug}"))),
            title,
            status: self.status().as_u16(),
            detail,
            limit: match self {
                Self::BodyTooLarge { limit } => Some(limit),
                _ => None,
            },
            answer_status: match self {
                Self::AnswerNotKept { status } => Some(status.as_u16()),
                _ => None,
            },
        };
        // Texts and numbers can always be written.
        let body = serde_json::to_vec(&document).unwrap_or_default();
        let mut response = Response::new(B::from(Bytes::from(body)));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CONTENT_LANGUAGE, HeaderValue::from_static("en"));
        if let Some(wait) = self.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
        }
        response.extensions_mut().insert(self);
        response
    }

    fn text(self) -> &'static Text {
        match self {
            Self::KeyMissing => &text::KEY_MISSING,
            Self::KeyRepeated => &text::KEY_REPEATED,
            Self::KeyMalformed => &text::KEY_MALFORMED,
            Self::Unscoped { .. } => &text::UNSCOPED,
            Self::LengthRequired => &text::LENGTH_REQUIRED,
            Self::BodyTooLarge { .. } => &text::BODY_TOO_LARGE,
            Self::BodyTooSlow => &text::BODY_TOO_SLOW,
            Self::BodyUnreadable => &text::BODY_UNREADABLE,
            Self::Mismatch => &text::MISMATCH,
            Self::InFlight { .. } => &text::IN_FLIGHT,
            Self::OutcomeUnknown => &text::OUTCOME_UNKNOWN,
            Self::AnswerNotKept { .. } => &text::ANSWER_NOT_KEPT,
            Self::AnswerUnreadable => &text::ANSWER_UNREADABLE,
            Self::HandlerFailed => &text::HANDLER_FAILED,
            Self::NotRecorded { .. } => &text::NOT_RECORDED,
            Self::Overloaded { .. } => &text::OVERLOADED,
            Self::StoreFailed { .. } => &text::STORE_FAILED,
        }
    }
}

/// What a client is told of an error of the keys'. None of them says that its request ran, and only those say that it did not
/// after which that is sure.
impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        let retry_after = STORE_RETRY_AFTER;
        match error {
            Error::CommittedWithoutAnswer | Error::Held | Error::Step { .. } => Self::OutcomeUnknown,
            Error::CommitUnknown { .. } | Error::NoAnswer { .. } | Error::Superseded => {
                Self::NotRecorded { retry_after }
            }
            Error::Deserialize { .. } | Error::SealedByAnother { .. } => Self::AnswerUnreadable,
            Error::Phased => Self::InFlight { retry_after },
            Error::RequestExpired => Self::HandlerFailed,
            other => Self::StoreFailed { retry_after: other.is_retryable().then_some(retry_after) },
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

/// So that `?` answers with a problem in a handler that returns a response either way.
impl<B: From<Bytes>> From<Problem> for Response<B> {
    fn from(problem: Problem) -> Self {
        problem.response()
    }
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    #[serde(rename = "type")]
    type_uri: Cow<'a, str>,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer_status: Option<u16>,
}

/// `Retry-After` takes whole seconds (RFC 9110, 10.2.3); less than asked for would be too early, and 0 at once.
fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_never_too_early() {
        for (wait, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (30_000, 30)] {
            assert_eq!(whole_seconds(Duration::from_millis(wait)), seconds, "{wait} ms");
        }
    }

    #[test]
    fn an_error_says_that_nothing_ran_only_where_that_is_sure() {
        let retry_after = STORE_RETRY_AFTER;
        for (error, problem) in [
            (Error::CommittedWithoutAnswer, Problem::OutcomeUnknown),
            (Error::CommitUnknown { source: sqlx::Error::WorkerCrashed }, Problem::NotRecorded { retry_after }),
            (Error::NoAnswer { limit: retry_after }, Problem::NotRecorded { retry_after }),
            (Error::Superseded, Problem::NotRecorded { retry_after }),
            (Error::Deserialize { source: "no".into() }, Problem::AnswerUnreadable),
            (Error::SealedByAnother { name: "old".to_owned() }, Problem::AnswerUnreadable),
            (Error::Phased, Problem::InFlight { retry_after }),
            (Error::Unsettled { looks: 1 }, Problem::StoreFailed { retry_after: Some(retry_after) }),
            (Error::ClaimGone, Problem::StoreFailed { retry_after: None }),
        ] {
            assert_eq!(Problem::from(error), problem);
        }
    }

    #[test]
    fn a_base_of_your_own_replaces_the_documentation() {
        let response: Response<Bytes> = Problem::KeyMissing.response_documented(Some("https://developer.example.com/"));
        let body: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(body["type"], "https://developer.example.com/key-missing");
        assert_eq!(body["status"], 400);
    }
}
