//! Whose key a request brings.

use http::StatusCode;

use crate::key::KeyError;

/// Why a request has no scope: what a scope function answers instead of a [`Scope`](crate::Scope).
///
/// A [`KeyError`] becomes a 400 with `?`; other statuses are made with [`status`](Self::status), such as 401 where nobody
/// has been authenticated. Whatever it is, the handler does not run: requests without a scope never share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request has no idempotency scope, which is answered with {status}")]
pub struct Unscoped {
    pub(super) status: StatusCode,
    #[source]
    source: Option<KeyError>,
}

impl Unscoped {
    /// A request that is to be answered with this status, and the problem `Unscoped`.
    #[must_use]
    pub const fn status(status: StatusCode) -> Self {
        Self { status, source: None }
    }
}

impl From<KeyError> for Unscoped {
    fn from(error: KeyError) -> Self {
        Self { status: StatusCode::BAD_REQUEST, source: Some(error) }
    }
}
