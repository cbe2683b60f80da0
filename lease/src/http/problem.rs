//! What the layer answers instead of the handler: `application/problem+json` (RFC 9457).

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LANGUAGE, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

use crate::error::Error;
use crate::fence::Refusal;

/// When a store that failed is worth asking again.
const STORE_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why a request was not let through. A response of the layer's own carries it in its extensions.
///
/// | problem | status | what the client does |
/// |---|---|---|
/// | `TokenMissing` | 428 (RFC 6585, 3) | acquires a lease, and brings its token |
/// | `TokenRepeated`, `TokenMalformed` | 400 | mends the header |
/// | `ResourceUnnamed` | 400 | asks for a resource that there is |
/// | `Refused` | 412 (RFC 9110, 15.5.13) | stops: it is no longer the holder. [`NotSealed`](Refusal::NotSealed): seals first |
/// | `StoreFailed` | 503, `Retry-After` if that can help | asks again |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The method writes and there is no token.
    TokenMissing,
    /// There is more than one token.
    TokenRepeated,
    /// The header is no token with an owner.
    TokenMalformed,
    /// The layer's function names no resource for the request.
    ResourceUnnamed,
    /// The resource refuses the token.
    Refused {
        /// Why.
        refusal: Refusal,
    },
    /// The database failed, or a seal waited to its limit. A request is never let through unprotected.
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
            Self::TokenMissing => StatusCode::PRECONDITION_REQUIRED,
            Self::TokenRepeated | Self::TokenMalformed | Self::ResourceUnnamed => StatusCode::BAD_REQUEST,
            Self::Refused { .. } => StatusCode::PRECONDITION_FAILED,
            Self::StoreFailed { .. } => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The problem as a response; axum's `Response` is one.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use leastlock_lease::http::Problem;
    ///
    /// let response: http::Response<Bytes> = Problem::TokenMissing.response();
    /// assert_eq!(response.status(), 428);
    /// assert_eq!(response.headers()["content-type"], "application/problem+json");
    /// ```
    #[must_use]
    pub fn response<B: From<Bytes>>(self) -> Response<B> {
        let (variant, title) = self.text();
        let status = self.status().as_u16();
        // Of these texts and numbers none needs an escape. The numbers of a refusal are no secret: who asks has sent one.
        let detail = match self {
            Self::Refused { refusal } => refusal.to_string(),
            _ => title.to_owned(),
        };
        let body = format!(
            "{{\"type\":\"https://docs.rs/leastlock-lease/latest/leastlock_lease/http/enum.Problem.html#variant.{variant}\",\
             \"title\":\"{title}\",\"status\":{status},\"detail\":\"{detail}\"}}"
        );
        let mut response = Response::new(B::from(Bytes::from(body)));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CONTENT_LANGUAGE, HeaderValue::from_static("en"));
        if let Self::StoreFailed { retry_after: Some(wait) } = self {
            // Whole seconds (RFC 9110, 10.2.3), and never too early.
            let seconds = (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1);
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(self);
        response
    }

    const fn text(self) -> (&'static str, &'static str) {
        match self {
            Self::TokenMissing => ("TokenMissing", "Fencing-Token is missing"),
            Self::TokenRepeated => ("TokenRepeated", "There is more than one Fencing-Token"),
            Self::TokenMalformed => ("TokenMalformed", "Fencing-Token cannot be read"),
            Self::ResourceUnnamed => ("ResourceUnnamed", "There is no such protected resource"),
            Self::Refused { .. } => ("Refused", "The resource refuses this Fencing-Token"),
            Self::StoreFailed { .. } => ("StoreFailed", "The Fencing-Token cannot be checked at the moment"),
        }
    }
}

/// What a client is told of an error: never that it may go on.
impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        match error {
            Error::Refused { refusal, .. } => Self::Refused { refusal: *refusal },
            Error::Resource { .. } => Self::ResourceUnnamed,
            other => Self::StoreFailed { retry_after: other.is_retryable().then_some(STORE_RETRY_AFTER) },
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
