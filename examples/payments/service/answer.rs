//! What a client is told, as it is stored and replayed: byte for byte.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, Response, StatusCode};
use leastlock::idempotency::http::IDEMPOTENCY_REPLAYED;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::service::card::Charge;
use crate::service::shop::{Order, Reservation};

/// What the `type` of each problem of this service begins with.
pub(crate) const PROBLEMS: &str = "https://payments.example/problems/";
const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

/// A status and a JSON body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    status: u16,
    body: String,
}

impl Answer {
    pub(crate) fn paid(order: &Order, charge: &Charge) -> Result<Self, serde_json::Error> {
        let body =
            json!({"order": order.id, "state": "paid", "amount_cents": charge.amount_cents, "charge": charge.id});
        Ok(Self { status: StatusCode::CREATED.as_u16(), body: serde_json::to_string(&body)? })
    }

    pub(crate) fn declined(order: &Order, reason: &str) -> Result<Self, serde_json::Error> {
        let detail =
            format!("The card was declined ({reason}). The order is cancelled; pay a new one with another card.");
        Self::problem(StatusCode::PAYMENT_REQUIRED, "declined", "Payment declined", &detail, Some(&order.id))
    }

    /// Nothing was reserved.
    pub(crate) fn refused(reservation: &Reservation, order: &Order) -> Result<Self, serde_json::Error> {
        let (status, kind, title, detail) = match reservation {
            Reservation::SoldOut => {
                (StatusCode::CONFLICT, "sold-out", "Sold out", "There are not as many units. Nothing was charged.")
            }
            Reservation::NoSuchItem => (StatusCode::NOT_FOUND, "no-such-item", "No such item", "Nothing was charged."),
            Reservation::OrderTaken | Reservation::Reserved { .. } => (
                StatusCode::CONFLICT,
                "order-taken",
                "The order exists",
                "It was made under another idempotency key. Nothing was charged under this one.",
            ),
        };
        Self::problem(status, kind, title, detail, Some(&order.id))
    }

    /// What the client asked for cannot be read, so nothing began and nothing is stored.
    pub(crate) fn unreadable(detail: &str) -> Result<Self, serde_json::Error> {
        Self::problem(StatusCode::BAD_REQUEST, "unreadable", "The payment cannot be read", detail, None)
    }

    /// Not an outcome, and not stored: the same key tells it once it is known.
    pub(crate) fn unknown() -> Result<Self, serde_json::Error> {
        let detail =
            "Whether the card was charged is not known yet. Ask again with the same key; never pay with another.";
        let title = "The outcome is not known yet";
        Self::problem(StatusCode::SERVICE_UNAVAILABLE, "outcome-unknown", title, detail, None)
    }

    /// Not an outcome, and not stored.
    pub(crate) fn failed(can_help: bool) -> Result<Self, serde_json::Error> {
        let status = if can_help { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::INTERNAL_SERVER_ERROR };
        Self::problem(status, "failed", "The payment did not come to an end", "Ask again with the same key.", None)
    }

    fn problem(
        status: StatusCode,
        kind: &str,
        title: &str,
        detail: &str,
        order: Option<&str>,
    ) -> Result<Self, serde_json::Error> {
        let mut body =
            json!({"type": format!("{PROBLEMS}{kind}"), "title": title, "status": status.as_u16(), "detail": detail});
        if let Some(order) = order {
            body["order"] = order.into();
        }
        Ok(Self { status: status.as_u16(), body: serde_json::to_string(&body)? })
    }

    pub(crate) fn response(self, replayed: bool) -> Response<Body> {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = status;
        let kind = if status.is_success() { JSON } else { PROBLEM };
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if replayed {
            response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
