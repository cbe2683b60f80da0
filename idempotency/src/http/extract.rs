//! Extract mode: the handler begins with the key itself, in the transaction of its own writes.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::body::Buffered;
use super::layer::{Idempotent, LayerError, sealed};
use super::report;

/// The mode of [`IdempotencyLayer::extract`](super::IdempotencyLayer::extract).
#[derive(Debug)]
pub struct Extract {
    pub(super) _private: (),
}

impl sealed::Sealed for Extract {
    fn check(&mut self) -> Result<(), LayerError> {
        Ok(())
    }
}

pub(super) type Answered<B, E> = Pin<Box<dyn Future<Output = Result<Response<Buffered<B>>, E>> + Send>>;

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for Idempotent<S, Extract>
where
    S: Service<Request<Buffered<ReqBody>>, Response = Response<ResBody>> + Clone + Send + 'static,
    S::Future: Send,
    ReqBody: Body<Data = Bytes> + Send + 'static,
    ResBody: Body<Data = Bytes> + 'static,
{
    type Response = Response<Buffered<ResBody>>;
    type Error = S::Error;
    type Future = Answered<ResBody, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let mut inner = self.ready();
        let admission = &self.settings.admission;
        if !admission.covers(request.method()) {
            let answer = inner.call(request.map(Buffered::passed));
            return Box::pin(async move { Ok(answer.await?.map(Buffered::passed)) });
        }
        let settings = std::sync::Arc::clone(&self.settings);
        Box::pin(async move {
            // How many there are at a time is the server's to bound: each ends with its connection.
            match settings.admission.admit(request, || Ok(())).await {
                Ok((admitted, ())) => {
                    report::admitted(&admitted.key);
                    Ok(inner.call(admitted.request).await?.map(Buffered::passed))
                }
                Err(problem) => {
                    report::refused(problem);
                    Ok(problem.response_documented(settings.admission.docs.as_deref()))
                }
            }
        })
    }
}

impl<S: Clone, M> Idempotent<S, M> {
    /// The inner service that `poll_ready` has found ready. A clone, which need not be, takes its place.
    pub(super) fn ready(&mut self) -> S {
        let clone = self.inner.clone();
        std::mem::replace(&mut self.inner, clone)
    }
}
