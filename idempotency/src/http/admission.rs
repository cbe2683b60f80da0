//! What both modes do before anything runs: key, scope, body, fingerprint.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Request, header};
use http_body::Body;

use super::body::{BrokeOff, Buffered, Gathered, gather};
use super::key_header::{IDEMPOTENCY_KEY, KeyHeader};
use super::problem::Problem;
use super::scope::Unscoped;
use crate::fingerprint::Fingerprint;
use crate::key::{Key, KeyError, Scope};

pub(super) type ScopeOf = dyn Fn(&Parts) -> Result<Scope, Unscoped> + Send + Sync;
pub(super) type FingerprintOf = dyn Fn(&Parts, &[u8]) -> Fingerprint + Send + Sync;

/// The settings that both modes share.
#[derive(Clone)]
pub(super) struct Admission {
    pub(super) header: KeyHeader,
    pub(super) scope: Arc<ScopeOf>,
    pub(super) fingerprint: Arc<FingerprintOf>,
    pub(super) covers_idempotent: bool,
    pub(super) max_body_bytes: usize,
    pub(super) max_body_wait: Duration,
    pub(super) requires_length: bool,
    pub(super) docs: Option<Arc<str>>,
}

/// A request that may be begun: its key and fingerprint are in its extensions too, and its body is whole.
#[derive(Debug)]
pub(super) struct Admitted<B> {
    pub(super) request: Request<Buffered<B>>,
    pub(super) key: Key,
    pub(super) fingerprint: Fingerprint,
}

impl Admission {
    pub(super) fn new(scope: Arc<ScopeOf>) -> Self {
        Self {
            header: KeyHeader { name: IDEMPOTENCY_KEY, accepts_bare: false },
            scope,
            fingerprint: Arc::new(of_request),
            covers_idempotent: false,
            max_body_bytes: 1024 * 1024,
            max_body_wait: Duration::from_secs(30),
            requires_length: false,
            docs: None,
        }
    }

    /// Whether a request of this method needs a key. Safe methods never do (RFC 9110, 9.2.1), `PUT` and `DELETE` are
    /// idempotent as they are (9.2.2), and of a method that is not known here the worst is assumed.
    pub(super) fn covers(&self, method: &Method) -> bool {
        match *method {
            Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE => false,
            Method::PUT | Method::DELETE => self.covers_idempotent,
            _ => true,
        }
    }

    /// Judges a request of a method that needs a key. What can be told from its head is told before its body is read, and it
    /// is read once there is a place for it: `place` is called then.
    pub(super) async fn admit<B: Body<Data = Bytes>, P>(
        &self,
        request: Request<B>,
        place: impl FnOnce() -> Result<P, Problem>,
    ) -> Result<(Admitted<B>, P), Problem> {
        let (mut parts, body) = request.into_parts();
        let text = self.header.read(&parts.headers)?;
        let scope = (self.scope)(&parts).map_err(|unscoped| Problem::Unscoped { status: unscoped.status })?;
        let key = Key::new(&scope, &text).map_err(|error| match error {
            KeyError::Missing => Problem::KeyMissing,
            _ => Problem::KeyMalformed,
        })?;
        self.measure(&body)?;
        let place = place()?;
        let (bytes, trailers) = self.read(body).await?;
        let fingerprint = (self.fingerprint)(&parts, &bytes);
        parts.extensions.insert(key.clone());
        parts.extensions.insert(fingerprint);
        let request = Request::from_parts(parts, Buffered::whole(bytes, trailers));
        Ok((Admitted { request, key, fingerprint }, place))
    }

    /// What can be told of a body before it is read.
    fn measure<B: Body<Data = Bytes>>(&self, body: &B) -> Result<(), Problem> {
        let hint = body.size_hint();
        if self.requires_length && hint.exact().is_none() {
            return Err(Problem::LengthRequired);
        }
        if usize::try_from(hint.lower()).map_or(true, |least| least > self.max_body_bytes) {
            return Err(Problem::BodyTooLarge { limit: self.max_body_bytes });
        }
        Ok(())
    }

    async fn read<B: Body<Data = Bytes>>(&self, body: B) -> Result<(Bytes, Option<HeaderMap>), Problem> {
        match tokio::time::timeout(self.max_body_wait, gather(body, self.max_body_bytes)).await {
            Ok(Ok(Gathered::Whole { bytes, trailers })) => Ok((bytes, trailers)),
            Ok(Ok(Gathered::Larger(_))) => Err(Problem::BodyTooLarge { limit: self.max_body_bytes }),
            Ok(Err(BrokeOff)) => Err(Problem::BodyUnreadable),
            Err(_) => Err(Problem::BodyTooSlow),
        }
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Admission")
            .field("header", &self.header)
            .field("max_body_bytes", &self.max_body_bytes)
            .finish_non_exhaustive()
    }
}

/// Method, path, query and body; JSON in canonical form where the request says that it is JSON.
fn of_request(parts: &Parts, body: &[u8]) -> Fingerprint {
    let request = Fingerprint::request(parts.method.as_str(), parts.uri.path(), parts.uri.query().unwrap_or_default());
    if is_json(&parts.headers) { request.json(body) } else { request.bytes(body) }
}

/// `application/json` or any type with the suffix `+json` (RFC 6839, 3.1), with or without parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return false };
    let essence = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn admission() -> Admission {
        Admission::new(Arc::new(|_: &Parts| Ok(Scope::of_operation("place-order")?)))
    }

    #[test]
    fn safe_methods_need_no_key_and_unknown_ones_do() {
        let (plain, strict) = (admission(), Admission { covers_idempotent: true, ..admission() });
        for safe in ["GET", "HEAD", "OPTIONS", "TRACE"] {
            let method = Method::from_bytes(safe.as_bytes()).unwrap();
            assert!(!plain.covers(&method) && !strict.covers(&method), "{safe}");
        }
        for idempotent in [Method::PUT, Method::DELETE] {
            assert!(!plain.covers(&idempotent) && strict.covers(&idempotent), "{idempotent}");
        }
        for unsafe_method in ["POST", "PATCH", "CONNECT", "MERGE", "get"] {
            let method = Method::from_bytes(unsafe_method.as_bytes()).unwrap();
            assert!(plain.covers(&method) && strict.covers(&method), "{unsafe_method}");
        }
    }

    #[test]
    fn json_is_what_says_so() {
        for (value, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/merge-patch+json", true),
            ("application/jsonp", false),
            ("text/plain", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_str(value).unwrap())]);
            assert_eq!(is_json(&headers), expected, "{value:?}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn key_and_fingerprint_are_in_the_extensions() {
        let request = Request::post("/orders?dry=1").header("idempotency-key", "\"k\"");
        let request = request.header("content-type", "application/json");
        let body = Buffered::<Buffered<axum::body::Body>>::from(Bytes::from_static(b"{\"b\": 1, \"a\": 2}"));
        let (admitted, ()) = admission().admit(request.body(body).unwrap(), || Ok(())).await.unwrap();
        assert_eq!(admitted.request.extensions().get::<Key>(), Some(&admitted.key));
        assert_eq!(admitted.request.extensions().get::<Fingerprint>(), Some(&admitted.fingerprint));
        assert_eq!(admitted.key.as_str(), "k");
        let expected = Fingerprint::request("POST", "/orders", "dry=1").json(b"{\"a\":2,\"b\":1}");
        assert_eq!(admitted.fingerprint, expected);
    }
}
