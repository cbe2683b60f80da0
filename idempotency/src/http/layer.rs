//! The layer, its settings, and the service it makes.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use http::request::Parts;

use super::admission::Admission;
use super::extract::Extract;
use super::scope::Unscoped;
use crate::fingerprint::Fingerprint;
use crate::key::Scope;

/// The largest body and answer that can be allowed: both are held in memory.
pub(super) const MOST_BYTES: usize = 256 * 1024 * 1024;

/// A [`tower::Layer`](tower_layer::Layer) that gives each unsafe request its idempotency key: [`extract`](Self::extract) for
/// handlers that begin with it themselves, [`replay`](Self::replay) for handlers whose effects are elsewhere.
///
/// | setting | default | meaning |
/// |---|---|---|
/// | `header` | `Idempotency-Key` | the header that carries the key |
/// | `accept_bare_keys` | no | takes a key without the quotes of RFC 8941 |
/// | `cover_put_and_delete` | no | these methods need a key as well; by themselves they are idempotent |
/// | `max_body_bytes` | 1,048,576 | the largest request body; beyond it 413 |
/// | `max_body_wait` | 30 s | how long a body may take to come; beyond it 408 |
/// | `require_length` | no | 411 for a body whose length is not known from the start |
/// | `fingerprint` | method, path, query, body | what the request says |
/// | `problem_docs` | this crate's documentation | what the `type` of a problem begins with |
///
/// The other settings of replay mode stand at [`Replay`](super::Replay).
#[derive(Debug)]
pub struct IdempotencyLayer<M> {
    pub(super) settings: Arc<Settings<M>>,
}

/// The settings of a layer.
#[derive(Debug)]
pub(super) struct Settings<M> {
    pub(super) admission: Admission,
    pub(super) mode: M,
}

/// The service that an [`IdempotencyLayer`] makes of another.
#[derive(Debug)]
pub struct Idempotent<S, M> {
    pub(super) inner: S,
    pub(super) settings: Arc<Settings<M>>,
}

impl IdempotencyLayer<Extract> {
    /// A layer that checks the key, hashes the body and puts [`Key`](crate::Key) and [`Fingerprint`] into the request's
    /// extensions. The handler begins with them, in the transaction of its own writes.
    ///
    /// `scope` says whose key it is, from what stands in the request's head and extensions: tenant, principal and
    /// operation. Where an outer router strips a prefix of the path (`nest`), it must not give two operations one scope.
    pub fn extract<F>(scope: F) -> LayerBuilder<Extract>
    where
        F: Fn(&Parts) -> Result<Scope, Unscoped> + Send + Sync + 'static,
    {
        LayerBuilder { admission: Admission::new(Arc::new(scope)), mode: Extract { _private: () } }
    }
}

impl<S, M> tower_layer::Layer<S> for IdempotencyLayer<M> {
    type Service = Idempotent<S, M>;

    fn layer(&self, inner: S) -> Idempotent<S, M> {
        Idempotent { inner, settings: Arc::clone(&self.settings) }
    }
}

impl<M> Clone for IdempotencyLayer<M> {
    fn clone(&self) -> Self {
        Self { settings: Arc::clone(&self.settings) }
    }
}

impl<S: Clone, M> Clone for Idempotent<S, M> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), settings: Arc::clone(&self.settings) }
    }
}

/// Builds an [`IdempotencyLayer`]; [`build`](Self::build) checks the limits.
#[derive(Debug)]
#[must_use = "call `build`"]
pub struct LayerBuilder<M> {
    pub(super) admission: Admission,
    pub(super) mode: M,
}

impl<M> LayerBuilder<M> {
    /// Another header for the key, such as one that clients send already.
    pub fn header(mut self, name: HeaderName) -> Self {
        self.admission.header.name = name;
        self
    }

    /// Takes `Idempotency-Key: 8e03978e` as well as `Idempotency-Key: "8e03978e"`; the two are one key. The draft allows
    /// the second only, and most clients send the first.
    pub fn accept_bare_keys(mut self) -> Self {
        self.admission.header.accepts_bare = true;
        self
    }

    /// Has `PUT` and `DELETE` need a key as well.
    pub fn cover_put_and_delete(mut self) -> Self {
        self.admission.covers_idempotent = true;
        self
    }

    /// The largest request body, in bytes (default: 1,048,576). It is held in memory: in replay mode for at most
    /// [`max_running`](Self::max_running) requests at a time; in extract mode for as many as the server lets in, so bound those
    /// there.
    pub fn max_body_bytes(mut self, max_body_bytes: usize) -> Self {
        self.admission.max_body_bytes = max_body_bytes;
        self
    }

    /// How long a request's body may take to come (default: 30 s). No key is claimed meanwhile.
    pub fn max_body_wait(mut self, max_body_wait: Duration) -> Self {
        self.admission.max_body_wait = max_body_wait;
        self
    }

    /// Refuses a body whose length is not known from the start; otherwise it is read up to the limit.
    pub fn require_length(mut self) -> Self {
        self.admission.requires_length = true;
        self
    }

    /// What a request says, where it is not all of method, path, query and body: a time stamp in the body that differs
    /// from repeat to repeat, a header that matters.
    pub fn fingerprint<F>(mut self, fingerprint: F) -> Self
    where
        F: Fn(&Parts, &[u8]) -> Fingerprint + Send + Sync + 'static,
    {
        self.admission.fingerprint = Arc::new(fingerprint);
        self
    }

    /// What the `type` of each problem begins with, where it is documented by yourself; the problem's
    /// [`slug`](super::Problem::slug) follows: `https://developer.example.com/problems/`.
    pub fn problem_docs(mut self, base: impl Into<Arc<str>>) -> Self {
        self.admission.docs = Some(base.into());
        self
    }

    /// The layer, if every limit makes sense.
    ///
    /// # Errors
    /// [`LayerError`] names the setting that is not within its bounds.
    pub fn build(mut self) -> Result<IdempotencyLayer<M>, LayerError>
    where
        M: Mode,
    {
        let day = Duration::from_hours(24);
        let body = self.admission.max_body_bytes;
        within("max_body_bytes", body <= MOST_BYTES, "at most 268,435,456 bytes")?;
        let wait = self.admission.max_body_wait;
        within("max_body_wait", wait >= Duration::from_millis(1) && wait <= day, "from 1 ms to 24 h")?;
        let docs = self.admission.docs.as_ref().map_or(0, |docs| docs.len());
        within("problem_docs", docs <= 1024, "at most 1,024 bytes")?;
        self.mode.check()?;
        Ok(IdempotencyLayer { settings: Arc::new(Settings { admission: self.admission, mode: self.mode }) })
    }
}

/// A mode of the layer: [`Extract`] or [`Replay`](super::Replay). Sealed.
pub trait Mode: sealed::Sealed {}

impl<M: sealed::Sealed> Mode for M {}

pub(super) mod sealed {
    use super::LayerError;

    /// Keeps [`Mode`](super::Mode) closed.
    pub trait Sealed {
        /// Checks the limits of the mode's own.
        fn check(&mut self) -> Result<(), LayerError>;
    }
}

/// A setting that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{setting} must be {allowed}")]
pub struct LayerError {
    /// Which one.
    pub setting: &'static str,
    /// Its bounds.
    pub allowed: &'static str,
}

pub(super) fn within(setting: &'static str, is_within: bool, allowed: &'static str) -> Result<(), LayerError> {
    if is_within { Ok(()) } else { Err(LayerError { setting, allowed }) }
}
