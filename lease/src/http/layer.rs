//! The layer, and the service that it makes of another.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response};
use sqlx::Pool;
use tower_service::Service;

use super::fenced::Fenced;
use super::header;
use super::problem::Problem;
use crate::error::Error;
use crate::fence::Fence;
use crate::sql::LeaseSql;

type FenceOf = dyn Fn(&Parts) -> Result<Fence, Error> + Send + Sync;

/// A [`tower::Layer`](tower_layer::Layer) that asks each request which writes for its fencing token, refuses the outdated ones, and
/// hands a [`Fenced`] to the handler in the request's extensions.
///
/// | setting | default | meaning |
/// |---|---|---|
/// | `seal_newer` | no | the first request of a newer generation seals the resource |
pub struct FencingLayer<DB: LeaseSql> {
    settings: Arc<Settings<DB>>,
}

struct Settings<DB: LeaseSql> {
    pool: Pool<DB>,
    fence_of: Arc<FenceOf>,
    seals_newer: bool,
}

/// The service that a [`FencingLayer`] makes of another.
pub struct Fencing<S, DB: LeaseSql> {
    inner: S,
    settings: Arc<Settings<DB>>,
}

impl<DB: LeaseSql> FencingLayer<DB> {
    /// Checks tokens against the guard rows in the database of `pool`; `fence_of` says which resource a request writes to, from what
    /// stands in its head and extensions. Its [`Fence::idle_timeout`] and [`Fence::seal_limit`] are 10 s and 20 s by default, since
    /// the TTL of the lease is not known here.
    pub fn new<F>(pool: &Pool<DB>, fence_of: F) -> Self
    where
        F: Fn(&Parts) -> Result<Fence, Error> + Send + Sync + 'static,
    {
        Self { settings: Arc::new(Settings { pool: pool.clone(), fence_of: Arc::new(fence_of), seals_newer: false }) }
    }

    /// Has the first request of a newer generation seal the resource, for holders that do not reach the database. Only for callers
    /// that are authenticated: whoever names the largest number shuts all others out.
    #[must_use]
    pub fn seal_newer(self) -> Self {
        let (pool, fence_of) = (self.settings.pool.clone(), Arc::clone(&self.settings.fence_of));
        Self { settings: Arc::new(Settings { pool, fence_of, seals_newer: true }) }
    }
}

impl<DB: LeaseSql> Settings<DB> {
    async fn admit(&self, parts: &Parts) -> Result<Fenced<DB>, Problem> {
        let brought = header::read(&parts.headers)?;
        let fence = (self.fence_of)(parts)?;
        let fenced = Fenced { pool: self.pool.clone(), fence, brought };
        fenced.admit(self.seals_newer).await?;
        Ok(fenced)
    }
}

impl<S, DB: LeaseSql> tower_layer::Layer<S> for FencingLayer<DB> {
    type Service = Fencing<S, DB>;

    fn layer(&self, inner: S) -> Fencing<S, DB> {
        Fencing { inner, settings: Arc::clone(&self.settings) }
    }
}

impl<S, DB, ReqBody, ResBody> Service<Request<ReqBody>> for Fencing<S, DB>
where
    DB: LeaseSql,
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone + Send + 'static,
    S::Future: Send,
    ReqBody: Send + 'static,
    ResBody: From<Bytes>,
{
    type Response = Response<ResBody>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResBody>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        // The one that was polled ready answers; its clone takes its place.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        // What does not write (RFC 9110, 9.2.1); of a method that is not known here the worst is assumed.
        if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE) {
            return Box::pin(inner.call(request));
        }
        let settings = Arc::clone(&self.settings);
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            match settings.admit(&parts).await {
                Ok(fenced) => {
                    parts.extensions.insert(fenced);
                    inner.call(Request::from_parts(parts, body)).await
                }
                Err(problem) => Ok(problem.response()),
            }
        })
    }
}

impl<DB: LeaseSql> Clone for FencingLayer<DB> {
    fn clone(&self) -> Self {
        Self { settings: Arc::clone(&self.settings) }
    }
}

impl<S: Clone, DB: LeaseSql> Clone for Fencing<S, DB> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), settings: Arc::clone(&self.settings) }
    }
}

impl<DB: LeaseSql> fmt::Debug for FencingLayer<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencingLayer").field("seals_newer", &self.settings.seals_newer).finish_non_exhaustive()
    }
}

impl<S: fmt::Debug, DB: LeaseSql> fmt::Debug for Fencing<S, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seals_newer = &self.settings.seals_newer;
        f.debug_struct("Fencing").field("inner", &self.inner).field("seals_newer", seals_newer).finish_non_exhaustive()
    }
}
