//! The product, in both of its modes.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use axum::routing::any;
use leastlock_idempotency::http::{
    Abandoned, Extract, IdempotencyLayer, LayerBuilder, Problem, Replay, Unscoped, replayed, stored,
};
use leastlock_idempotency::phased::{Phased, PhasedSql};
use leastlock_idempotency::response::HttpResponse;
use leastlock_idempotency::{Begin, Fingerprint, IdempotencySql, Key, Keys, Scope};
use leastlock_testkit::TestEngine;
use sqlx::Pool;

use crate::shop::{Shop, answer, insert_effect};
use crate::stage::{Stack, handlers, taken_apart};

/// The largest body that the tests' layers take.
pub(crate) const MAX_BODY_BYTES: usize = 1000;
/// The largest answer that they keep.
pub(crate) const MAX_RESPONSE_BYTES: usize = 4096;
/// Long enough for no test to see its end.
pub(crate) const LONG: Duration = Duration::from_mins(10);

/// Tenant from a header, operation from the path.
pub(crate) fn scope(parts: &Parts) -> Result<Scope, Unscoped> {
    let tenant = parts.headers.get("x-tenant").map_or(Ok("tenant-1"), |value| value.to_str());
    let tenant = tenant.map_err(|_| Unscoped::status(StatusCode::UNAUTHORIZED))?;
    if tenant == "nobody" {
        return Err(Unscoped::status(StatusCode::UNAUTHORIZED));
    }
    let operation = if parts.uri.path().starts_with("/returns/") { "return-goods" } else { "place-order" };
    Ok(Scope::new(tenant, "user-3", operation)?)
}

/// Replay mode.
pub(crate) struct Replaying {
    pub(crate) lease: Duration,
    pub(crate) renewed: bool,
    pub(crate) abandoned: Abandoned,
    pub(crate) max_claim: Duration,
    pub(crate) max_run: Duration,
    pub(crate) max_record: Duration,
    pub(crate) max_running: usize,
    pub(crate) strict: bool,
}

impl Default for Replaying {
    fn default() -> Self {
        Self {
            lease: LONG,
            renewed: true,
            abandoned: Abandoned::Hold,
            max_claim: LONG,
            max_run: LONG,
            max_record: LONG,
            max_running: 100,
            strict: false,
        }
    }
}

impl Replaying {
    pub(crate) fn layer<DB: TestEngine + PhasedSql>(&self, keys: &Pool<DB>) -> IdempotencyLayer<Replay<DB>> {
        let phased =
            Phased::builder().lease(self.lease).renewed(self.renewed).max_response_bytes(MAX_RESPONSE_BYTES).build();
        let layer = IdempotencyLayer::replay(keys, phased.expect("valid"), scope)
            .abandoned(self.abandoned)
            .max_claim(self.max_claim)
            .max_run(self.max_run)
            .max_record(self.max_record)
            .max_running(self.max_running);
        strict(layer, self.strict).max_body_bytes(MAX_BODY_BYTES).build().expect("valid")
    }
}

impl<DB: TestEngine + PhasedSql> Stack<DB> for Replaying {
    fn router(&self, shop: Arc<Shop<DB>>, keys: Pool<DB>) -> Router {
        handlers(&shop).layer(self.layer(&keys))
    }
}

/// Extract mode, with a handler that begins in the transaction of its own writes.
#[derive(Default)]
pub(crate) struct Extracting {
    pub(crate) strict: bool,
}

impl<DB: TestEngine + IdempotencySql> Stack<DB> for Extracting {
    const WAITS: bool = true;

    fn router(&self, shop: Arc<Shop<DB>>, keys: Pool<DB>) -> Router {
        let handler = any(move |request: Request| {
            let (shop, pool) = (Arc::clone(&shop), keys.clone());
            async move { begun(&shop, &pool, request).await.unwrap_or_else(Problem::response) }
        });
        let layer = strict(IdempotencyLayer::<Extract>::extract(scope), self.strict);
        let layer = layer.max_body_bytes(MAX_BODY_BYTES).build().expect("valid");
        Router::new().route("/orders/{does}", handler.clone()).route("/returns/{does}", handler).layer(layer)
    }
}

/// Which settings make the layer take less.
fn strict<M>(layer: LayerBuilder<M>, is_strict: bool) -> LayerBuilder<M> {
    if is_strict { layer.cover_put_and_delete().require_length() } else { layer.accept_bare_keys() }
}

/// A handler in extract mode. What fails rolls back, and the key is free.
async fn begun<DB: TestEngine + IdempotencySql>(
    shop: &Shop<DB>,
    pool: &Pool<DB>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let key = request.extensions().get::<Key>().cloned();
    let fingerprint = request.extensions().get::<Fingerprint>().copied();
    let (does, body) = taken_apart(request).await;
    let (Some(key), Some(fingerprint)) = (key, fingerprint) else {
        return Ok(shop.handle(&does, &body).await);
    };
    let begun = Keys::default().begin::<DB, HttpResponse>(pool, &key, &fingerprint).await;
    match begun.map_err(|error| Problem::from(&error))? {
        Begin::First(mut unit) => {
            shop.enter(&does).await;
            insert_effect::<DB>(unit.tx(), &body).await;
            let (parts, body) = answer(&does, &body).into_parts();
            let body = axum::body::to_bytes(body, usize::MAX).await.expect("a body of bytes");
            let response = Response::from_parts(parts, body);
            if response.status().is_server_error() {
                unit.release().await.map_err(|error| Problem::from(&error))?;
            } else {
                unit.complete(stored(&response).expect("a final status"))
                    .await
                    .map_err(|error| Problem::from(&error))?;
            }
            shop.leave(&does);
            Ok(response.map(Body::from))
        }
        Begin::Replay(stored) => replayed(stored),
        Begin::Mismatch => Err(Problem::Mismatch),
        Begin::InFlight { retry_after } => Err(Problem::InFlight { retry_after }),
    }
}
