//! A card provider: a process of its own, with a ledger of its own, that can be slow, fail, and hang up.
//!
//! `POST /charges` charges once for each `Idempotency-Key` (or, with `--charge-every-call`, once for each call), and acts on no
//! call later than its `Valid-Until`. `GET /charges/{key}` says what became of a charge.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::routing::{get, post};
use axum::{Router, http};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::args::Provider;
use crate::ended::Ended;
use crate::provider::connections::HangUp;
use crate::provider::ledger::{Call, Ledger, Taken};
use crate::provider::manner::{Manner, manner};
use crate::shutdown;

mod connections;
pub(crate) mod ledger;
pub(crate) mod manner;

/// The header that says until when a call may be acted on: milliseconds since 1970-01-01 UTC.
pub(crate) const VALID_UNTIL: &str = "valid-until";

/// What is to be charged.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ChargeRequest {
    /// The merchant's name for what is paid, for its books.
    pub(crate) reference: String,
    pub(crate) amount_cents: i64,
    pub(crate) card: String,
}

/// What the provider says of a charge: after a call, and when asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "seen", rename_all = "snake_case")]
pub(crate) enum Seen {
    Charged {
        charge: String,
        amount_cents: i64,
    },
    Declined {
        reason: String,
    },
    /// Not by now, by the provider's clock; a call that is valid until then at the longest will not be acted on any more.
    Nothing {
        now_ms: i64,
    },
}

struct Counter {
    ledger: Ledger,
    slow: Duration,
}

/// Serves until it is told to end.
pub(crate) async fn serve(args: Provider) -> Result<(), Ended> {
    let shutdown = shutdown::token(args.until_stdin_closes)?;
    let ledger = Ledger::open(&args.ledger, !args.charge_every_call).await;
    let ledger = ledger.map_err(|error| Ended::refused("cannot open the ledger", &error))?;
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.map_err(|error| Ended::refused(&format!("cannot listen on {}", args.listen), &error))?;
    let address = listener.local_addr().map_err(|error| Ended::refused("no address", &error))?;
    println!("listening on http://{address}");
    let router = Router::new()
        .route("/charges", post(charge))
        .route("/charges/{key}", get(look))
        .with_state(Arc::new(Counter { ledger, slow: Duration::from_millis(args.slow_ms) }));
    connections::serve(listener, router, shutdown).await;
    Ok(())
}

/// What was begun is done, whether the caller is still there or not.
async fn charge(State(counter): State<Arc<Counter>>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let key = text("idempotency-key").map(|key| key.trim_matches('"').to_owned());
    let valid_until = text(VALID_UNTIL).and_then(|until| until.parse().ok());
    let (Some(provider_key), Some(valid_until), Ok(request)) = (key, valid_until, serde_json::from_slice(&body)) else {
        return status(StatusCode::BAD_REQUEST);
    };
    let call = Call { provider_key, valid_until, request };
    let done = tokio::spawn(async move { counter.charge(call).await }).await;
    match done {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            tracing::warn!(%error, "the ledger failed");
            status(StatusCode::INTERNAL_SERVER_ERROR)
        }
        Err(panic) => {
            tracing::error!(%panic, "a charge panicked");
            status(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

async fn look(State(counter): State<Arc<Counter>>, Path(key): Path<String>) -> Response<Body> {
    match counter.ledger.look(&key).await {
        Ok(seen) => said(StatusCode::OK, &seen),
        Err(error) => {
            tracing::warn!(%error, "the ledger failed");
            status(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }
}

impl Counter {
    /// The card decides how the provider behaves, and for how many calls.
    async fn charge(&self, call: Call) -> Result<Response<Body>, sqlx::Error> {
        let number = self.ledger.count(&call.request.reference).await?;
        let manner = manner(&call.request.card, number);
        match manner {
            Manner::HangsUpBefore => return Ok(hung_up()),
            Manner::FailsBefore => return Ok(status(StatusCode::INTERNAL_SERVER_ERROR)),
            Manner::Slow => tokio::time::sleep(self.slow).await,
            Manner::Answers | Manner::Declines | Manner::HangsUpAfter | Manner::SlowAfter => {}
        }
        let taken = self.ledger.take(&call, manner == Manner::Declines).await?;
        match manner {
            Manner::HangsUpAfter => return Ok(hung_up()),
            Manner::SlowAfter => tokio::time::sleep(self.slow).await,
            _ => {}
        }
        Ok(match taken {
            Taken::New(seen @ Seen::Charged { .. }) => said(StatusCode::CREATED, &seen),
            Taken::Before(seen @ Seen::Charged { .. }) => said(StatusCode::OK, &seen),
            Taken::New(seen @ Seen::Declined { .. }) | Taken::Before(seen @ Seen::Declined { .. }) => {
                said(StatusCode::PAYMENT_REQUIRED, &seen)
            }
            Taken::New(seen @ Seen::Nothing { .. }) | Taken::Before(seen @ Seen::Nothing { .. }) => {
                said(StatusCode::GONE, &seen)
            }
            Taken::Mismatch => status(StatusCode::UNPROCESSABLE_ENTITY),
        })
    }
}

fn said(code: StatusCode, seen: &Seen) -> Response<Body> {
    let Ok(body) = serde_json::to_vec(seen) else { return status(StatusCode::INTERNAL_SERVER_ERROR) };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

fn status(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

fn hung_up() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(HangUp);
    response
}
