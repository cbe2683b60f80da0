//! The service over HTTP.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Response, StatusCode};
use axum::routing::{get, post};
use leastlock::idempotency::http::{IdempotencyLayer, LayerError, Problem, Unscoped};
use leastlock::idempotency::{self, Fingerprint, Key, KeyError, Scope};
use leastlock::{occ, outbox};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::BoxError;
use crate::engine::Engine;
use crate::service::answer::Answer;
use crate::service::payment::{Payments, Told};
use crate::service::shop::{self, Order};

/// The header that says who the customer is. It stands for whatever authenticates them.
pub(crate) const CUSTOMER: &str = "x-customer";
/// A payment is some hundred bytes.
const MAX_BODY_BYTES: usize = 16 * 1024;
const BUSY: Duration = Duration::from_secs(1);

/// Where payments are handed in.
#[derive(Debug)]
pub(crate) struct Desk<DB: Engine> {
    pub(crate) payments: Arc<Payments<DB>>,
    /// One for each payment at work.
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) at_work: TaskTracker,
}

/// Whose keys: one customer's for this operation.
pub(crate) fn scope_of(customer: &str) -> Result<Scope, KeyError> {
    Scope::new("shop", customer, "pay")
}

/// The routes, with the layer that gives each payment its key and fingerprint.
pub(crate) fn router<DB: Engine>(desk: Arc<Desk<DB>>) -> Result<Router, LayerError> {
    let layer = IdempotencyLayer::extract(|parts: &Parts| {
        let customer = customer(&parts.headers).ok_or(Unscoped::status(StatusCode::UNAUTHORIZED))?;
        Ok(scope_of(customer)?)
    });
    let layer = layer.accept_bare_keys().max_body_bytes(MAX_BODY_BYTES).build()?;
    Ok(Router::new()
        .route("/payments", post(pay::<DB>).layer(layer))
        .route("/orders/{id}", get(order::<DB>))
        .with_state(desk))
}

/// The payment runs in a task of its own: a client that hangs up does not stop it half-way.
async fn pay<DB: Engine>(
    State(desk): State<Arc<Desk<DB>>>,
    axum::Extension(key): axum::Extension<Key>,
    axum::Extension(fingerprint): axum::Extension<Fingerprint>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let Some(customer) = customer(&headers).map(str::to_owned) else {
        return Problem::Unscoped { status: StatusCode::UNAUTHORIZED }.response();
    };
    let order: Order = match serde_json::from_slice(&body) {
        Ok(order) => order,
        Err(error) => return answered(Answer::unreadable(&error.to_string()), false),
    };
    if let Err(detail) = order.check() {
        return answered(Answer::unreadable(detail), false);
    }
    let Ok(permit) = Arc::clone(&desk.permits).try_acquire_owned() else {
        return Problem::Overloaded { retry_after: BUSY }.response();
    };
    let payments = Arc::clone(&desk.payments);
    let paying = desk.at_work.spawn(async move {
        let _permit = permit;
        payments.pay((&customer, &key), &fingerprint, &order).await
    });
    match paying.await {
        Ok(Ok(told)) => told_response(told),
        Ok(Err(error)) => {
            tracing::warn!(%error, "a payment did not come to an end");
            match error.downcast_ref::<idempotency::Error>() {
                Some(error) => Problem::from(error).response(),
                None => answered(Answer::failed(can_help::<DB>(&error)), false),
            }
        }
        Err(panic) => {
            tracing::error!(%panic, "a payment panicked");
            answered(Answer::failed(false), false)
        }
    }
}

async fn order<DB: Engine>(
    State(desk): State<Arc<Desk<DB>>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<String, StatusCode> {
    let customer = customer(&headers).ok_or(StatusCode::UNAUTHORIZED)?;
    match shop::state(&desk.payments.pool, &id, customer).await {
        Ok(Some(state)) => Ok(state),
        Ok(None) => Err(StatusCode::NOT_FOUND),
        Err(error) => {
            tracing::warn!(%error, "an order cannot be read");
            Err(StatusCode::SERVICE_UNAVAILABLE)
        }
    }
}

fn told_response(told: Told) -> Response<Body> {
    match told {
        Told::First(answer) => answer.response(false),
        Told::Replayed(answer) => answer.response(true),
        Told::Mismatch => Problem::Mismatch.response(),
        Told::InFlight { retry_after } => Problem::InFlight { retry_after }.response(),
        Told::Unknown => answered(Answer::unknown(), false),
    }
}

fn answered(answer: Result<Answer, serde_json::Error>, replayed: bool) -> Response<Body> {
    match answer {
        Ok(answer) => answer.response(replayed),
        Err(error) => {
            tracing::error!(%error, "an answer cannot be written");
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            response
        }
    }
}

fn customer(headers: &HeaderMap) -> Option<&str> {
    headers.get(CUSTOMER)?.to_str().ok().filter(|customer| !customer.is_empty())
}

/// Whether the same request can come to an end later.
fn can_help<DB: Engine>(error: &BoxError) -> bool {
    if let Some(error) = error.downcast_ref::<occ::Error>() {
        return error.is_retryable();
    }
    if let Some(error) = error.downcast_ref::<outbox::Error>() {
        return error.is_retryable();
    }
    let database = error.downcast_ref::<sqlx::Error>();
    database.is_some_and(|error| leastlock::core::classify::<DB>(error).is_retryable())
}
