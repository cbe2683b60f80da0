//! Connections that can be hung up without an answer, which a router alone cannot.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

const MAX_CONNECTIONS: usize = 1_024;

/// In the extensions of a response: close the connection instead of sending it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HangUp;

/// Serves until `shutdown`; connections that are open then are cut.
pub(crate) async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let service = TowerToHyperService::new(router);
    while let Some(Ok(permit)) = shutdown.run_until_cancelled(Arc::clone(&permits).acquire_owned()).await {
        let Some(accepted) = shutdown.run_until_cancelled(listener.accept()).await else { return };
        // Such as a client that has gone again already.
        let Ok((stream, _)) = accepted else { continue };
        let service = service.clone();
        let served = shutdown.clone();
        tokio::spawn(async move {
            let _permit = permit;
            let answer = service_fn(move |request| answer(service.clone(), request));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
            if let Some(Err(error)) = served.run_until_cancelled(connection).await {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
}

/// An error here makes hyper close the connection.
async fn answer(service: TowerToHyperService<Router>, request: Request<Incoming>) -> Result<Response<Body>, HungUp> {
    let Ok(response) = service.call(request).await;
    if response.extensions().get::<HangUp>().is_some() { Err(HungUp) } else { Ok(response) }
}

/// The provider has hung up.
#[derive(Debug)]
struct HungUp;

impl fmt::Display for HungUp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("hung up")
    }
}

impl std::error::Error for HungUp {}
