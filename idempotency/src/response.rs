//! What is stored as the answer to a request, and replayed.

use std::fmt;

use leastlock_core::{Dialect, Row, Statement};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::response::headers::{decode, encode, is_token, is_value};

mod headers;

/// Why a response could not be written or read; the source of [`Error::Serialize`](crate::Error::Serialize) and
/// [`Error::Deserialize`](crate::Error::Deserialize).
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Header fields: names and values in their order.
pub type HeaderFields = Vec<(String, Vec<u8>)>;

/// A type whose values are stored as answers. There are two kinds: whatever serde can write and read, kept as JSON, and
/// [`HttpResponse`], kept byte for byte.
///
/// # Contract
/// [`from_parts`](Self::from_parts) makes an equal value of what [`to_parts`](Self::to_parts) gave, and refuses parts of another
/// kind of answer: a record lives longer than the program that wrote it.
pub trait Response: Sized + Send {
    /// The columns to store.
    ///
    /// # Errors
    /// When the value cannot be written. Nothing is stored then.
    fn to_parts(&self) -> Result<ResponseParts, BoxError>;

    /// The value that was stored.
    ///
    /// # Errors
    /// When the parts are not what this type writes.
    fn from_parts(parts: ResponseParts) -> Result<Self, BoxError>;
}

/// An answer as its columns are stored.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ResponseParts {
    /// `response_status`: set for an HTTP response, and for nothing else.
    pub status: Option<u16>,
    /// `response_headers`.
    pub headers: Option<Vec<u8>>,
    /// `response_body`.
    pub body: Vec<u8>,
}

impl ResponseParts {
    /// The bytes that [`max_response_bytes`](crate::KeysBuilder::max_response_bytes) bounds: headers and body.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.headers.as_ref().map_or(0, Vec::len) + self.body.len()
    }

    /// Binds status, headers and body.
    pub(crate) fn bind<'a>(&'a self, statement: Statement<'a>) -> Statement<'a> {
        statement.bind(self.status.map(i64::from)).bind(self.headers.as_deref()).bind(self.body.as_slice())
    }

    /// Reads the columns of a record, of which the status is number `first`.
    pub(crate) fn read<DB: Dialect>(row: &Row<DB>, first: usize) -> Result<Self, sqlx::Error> {
        let status = row.optional_int(first)?.map(u16::try_from).transpose();
        let status = status
            .map_err(|source| sqlx::Error::ColumnDecode { index: "response_status".into(), source: source.into() })?;
        let (headers, body) = (row.optional_bytes(first + 1)?, row.optional_bytes(first + 2)?.unwrap_or_default());
        Ok(Self { status, headers, body })
    }
}

impl<T: Serialize + DeserializeOwned + Send> Response for T {
    fn to_parts(&self) -> Result<ResponseParts, BoxError> {
        Ok(ResponseParts { body: serde_json::to_vec(self)?, ..ResponseParts::default() })
    }

    fn from_parts(parts: ResponseParts) -> Result<Self, BoxError> {
        if parts.status.is_some() {
            return Err("the stored answer is an HTTP response".into());
        }
        Ok(serde_json::from_slice(&parts.body)?)
    }
}

/// An HTTP response that is replayed byte for byte: status, header fields in their order with their repeats and their
/// spelling, and the body, which need not be text. It knows nothing of the `http` crate.
///
/// Which fields to store is the caller's decision. Leave out what belongs to one connection or one moment (`Date`,
/// `Connection`, `Set-Cookie` of a session).
///
/// ```
/// use leastlock_idempotency::HttpResponse;
///
/// let headers = vec![("Location".to_owned(), b"/orders/7".to_vec()), ("Vary".to_owned(), b"Accept".to_vec())];
/// let created = HttpResponse::new(201, headers, b"{}".to_vec())?;
/// assert_eq!(created.headers()[0].0, "Location");
/// assert!(HttpResponse::new(201, vec![("Loca tion".to_owned(), Vec::new())], Vec::new()).is_err());
/// # Ok::<(), leastlock_idempotency::HttpResponseError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct HttpResponse {
    status: u16,
    headers: HeaderFields,
    body: Vec<u8>,
}

impl HttpResponse {
    /// A response of which every part could be sent.
    ///
    /// # Errors
    /// [`HttpResponseError`] if the status is not one of a final response (200 to 999), if a field's name is no token (RFC 9110,
    /// section 5.6.2), or if its value has control characters other than tab (section 5.5).
    pub fn new(status: u16, headers: HeaderFields, body: Vec<u8>) -> Result<Self, HttpResponseError> {
        if !(200..=999).contains(&status) {
            return Err(HttpResponseError::Status { status });
        }
        for (position, (name, value)) in headers.iter().enumerate() {
            if !is_token(name) {
                return Err(HttpResponseError::HeaderName { position });
            }
            if !is_value(value) {
                return Err(HttpResponseError::HeaderValue { position });
            }
        }
        Ok(Self { status, headers, body })
    }

    /// The status.
    #[must_use]
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// The header fields in their order.
    #[must_use]
    pub fn headers(&self) -> &[(String, Vec<u8>)] {
        &self.headers
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Status, header fields and body.
    #[must_use]
    pub fn into_parts(self) -> (u16, HeaderFields, Vec<u8>) {
        (self.status, self.headers, self.body)
    }
}

impl Response for HttpResponse {
    fn to_parts(&self) -> Result<ResponseParts, BoxError> {
        Ok(ResponseParts { status: Some(self.status), headers: Some(encode(&self.headers)?), body: self.body.clone() })
    }

    fn from_parts(parts: ResponseParts) -> Result<Self, BoxError> {
        let (Some(status), Some(headers)) = (parts.status, parts.headers) else {
            return Err("the stored answer is no HTTP response".into());
        };
        Ok(Self::new(status, decode(&headers)?, parts.body)?)
    }
}

/// Why an [`HttpResponse`] cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpResponseError {
    /// The status is not that of a final response.
    #[error("a stored response has a final status (200 to 999), not {status}")]
    Status {
        /// What it was.
        status: u16,
    },
    /// A field's name is empty or has characters that a name cannot have.
    #[error("the name of header field {position} (from 0) is no token")]
    HeaderName {
        /// Which field.
        position: usize,
    },
    /// A field's value has control characters.
    #[error("the value of header field {position} (from 0) has control characters")]
    HeaderValue {
        /// Which field.
        position: usize,
    },
}

// Answers are the application's data, so they do not reach a log by way of `{:?}`.
impl fmt::Debug for HttpResponse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("HttpResponse").field("status", &self.status).finish_non_exhaustive()
    }
}

impl fmt::Debug for ResponseParts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ResponseParts").field("status", &self.status).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_kind_of_answer_is_never_read_as_the_other() {
        let http = HttpResponse::new(200, Vec::new(), b"7".to_vec()).unwrap().to_parts().unwrap();
        assert!(<u32 as Response>::from_parts(http).is_err());
        let json = 7_u32.to_parts().unwrap();
        assert_eq!(<u32 as Response>::from_parts(json.clone()).unwrap(), 7);
        assert!(HttpResponse::from_parts(json).is_err());
    }

    #[test]
    fn what_cannot_be_sent_is_no_response() {
        let with = |name: &str, value: &[u8]| HttpResponse::new(200, vec![(name.into(), value.into())], Vec::new());
        assert!(with("X-Note", b"caf\xc3\xa9\t!").is_ok());
        for name in ["", "two words", "a:b", "n\u{e4}me", "a\n"] {
            assert_eq!(with(name, b""), Err(HttpResponseError::HeaderName { position: 0 }), "{name:?}");
        }
        for value in [&b"a\r\nSet-Cookie: b"[..], b"\0", b"\x7f"] {
            assert_eq!(with("X-Note", value), Err(HttpResponseError::HeaderValue { position: 0 }), "{value:?}");
        }
        for status in [0, 99, 100, 103, 1000] {
            assert_eq!(HttpResponse::new(status, Vec::new(), Vec::new()), Err(HttpResponseError::Status { status }));
        }
    }
}
