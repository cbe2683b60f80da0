//! What the layer measures (feature `metrics`): the names, with their units.
//!
//! Figures go to whatever recorder the application has installed for the crate `metrics`; without one they go nowhere. Call
//! [`describe`] once after it is installed, for the exporters that show what a metric means.
//!
//! Labels have a fixed set of values each, named below. No key, scope, path or payload is ever in one.
//!
//! | metric | kind | unit | labels |
//! |---|---|---|---|
//! | [`IDEMPOTENCY_HTTP_REQUESTS_TOTAL`] | counter | requests | `outcome` |
//! | [`IDEMPOTENCY_HTTP_KEYS_TOTAL`] | counter | keys | `ended` |
//! | [`IDEMPOTENCY_HTTP_HANDLERS_RUNNING`] | gauge | handlers | |
//! | [`IDEMPOTENCY_HTTP_HANDLER_SECONDS`] | histogram | seconds | |
//!
//! Each of `held` and `not_recorded` in [`IDEMPOTENCY_HTTP_KEYS_TOTAL`] is for somebody to look at.

use ::metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Requests that needed a key, once each. Label `outcome`: `admitted` (given to the handler, extract mode), `first` (answered by the
/// handler, replay mode), `replay`, or the [slug](crate::http::Problem::slug) of the problem that was the answer.
pub const IDEMPOTENCY_HTTP_REQUESTS_TOTAL: &str = "idempotency_http_requests_total";

/// Keys that the layer has ended, replay mode. Label `ended`: `completed`, `not_kept` (completed, the answer not kept: it could not be, or must not),
/// `released`, `held`, `superseded` (its end came too late and changed nothing), `not_recorded` (the store failed; the lease ends
/// it).
pub const IDEMPOTENCY_HTTP_KEYS_TOTAL: &str = "idempotency_http_keys_total";

/// Handlers that run now in replay mode, those included whose client is gone.
pub const IDEMPOTENCY_HTTP_HANDLERS_RUNNING: &str = "idempotency_http_handlers_running";

/// Seconds from a handler's start until its key was ended, replay mode.
pub const IDEMPOTENCY_HTTP_HANDLER_SECONDS: &str = "idempotency_http_handler_seconds";

/// Tells the recorder what each metric means, and its unit.
pub fn describe() {
    describe_counter!(IDEMPOTENCY_HTTP_REQUESTS_TOTAL, Unit::Count, "requests that needed a key, by their outcome");
    describe_counter!(IDEMPOTENCY_HTTP_KEYS_TOTAL, Unit::Count, "keys that were ended, by how");
    describe_gauge!(IDEMPOTENCY_HTTP_HANDLERS_RUNNING, Unit::Count, "handlers that run now");
    describe_histogram!(IDEMPOTENCY_HTTP_HANDLER_SECONDS, Unit::Seconds, "a handler with the end of its key");
}

pub(super) fn request(outcome: &'static str) {
    ::metrics::counter!(IDEMPOTENCY_HTTP_REQUESTS_TOTAL, "outcome" => outcome).increment(1);
}

pub(super) fn key(ended: &'static str) {
    ::metrics::counter!(IDEMPOTENCY_HTTP_KEYS_TOTAL, "ended" => ended).increment(1);
}

pub(super) fn handler_starts() {
    ::metrics::gauge!(IDEMPOTENCY_HTTP_HANDLERS_RUNNING).increment(1.0);
}

pub(super) fn handler_ends(seconds: f64) {
    ::metrics::gauge!(IDEMPOTENCY_HTTP_HANDLERS_RUNNING).decrement(1.0);
    ::metrics::histogram!(IDEMPOTENCY_HTTP_HANDLER_SECONDS).record(seconds);
}
