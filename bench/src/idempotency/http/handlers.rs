//! The handlers, bare and behind the layer in each of its modes.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, ensure};
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};
use axum::routing::post;
use axum::{Extension, Router};
use leastlock_idempotency::http::{Extract, IdempotencyLayer, Problem, Replay, replayed, stored};
use leastlock_idempotency::phased::Phased;
use leastlock_idempotency::{Begin, Fingerprint, HttpResponse, Key, Keys, Scope};
use sqlx::Pool;
use tokio::time::{Instant, sleep};

use super::Way;
use crate::idempotency::order::{Order, Receipt};
use crate::idempotency::{KeyEngine, by_hand};

/// How long handlers that nobody waits for may go on.
const SETTLE_LIMIT: Duration = Duration::from_secs(30);

/// What handlers share.
#[derive(Debug)]
struct Desk<DB: KeyEngine> {
    pool: Pool<DB>,
    keys: Keys,
    /// The first error of any of them.
    trouble: Arc<OnceLock<String>>,
}

/// The service of a turn, in each way.
#[derive(Debug)]
pub(crate) struct Stack<DB: KeyEngine> {
    pub(super) pool: Pool<DB>,
    bare: Router,
    passed_on: Router,
    extract: Router,
    replay: Router,
    replay_layer: IdempotencyLayer<Replay<DB>>,
    trouble: Arc<OnceLock<String>>,
}

impl<DB: KeyEngine> Stack<DB> {
    pub(super) fn new(pool: &Pool<DB>) -> anyhow::Result<Self> {
        let trouble = Arc::<OnceLock<String>>::default();
        let desk = Arc::new(Desk { pool: pool.clone(), keys: Keys::default(), trouble: Arc::clone(&trouble) });
        let bare = Router::new().route("/orders", post(bare::<DB>)).with_state(Arc::clone(&desk));
        let extract = IdempotencyLayer::<Extract>::extract(|_| Ok(scope("place-orders-extr")?)).build()?;
        let begun = Router::new().route("/orders", post(begun::<DB>)).with_state(desk);
        let replay = IdempotencyLayer::replay(pool, Phased::default(), |_| Ok(scope("place-orders-repl")?)).build()?;
        Ok(Self {
            pool: pool.clone(),
            passed_on: bare.clone().layer(extract.clone()),
            extract: begun.layer(extract),
            replay: bare.clone().layer(replay.clone()),
            bare,
            replay_layer: replay,
            trouble,
        })
    }

    pub(super) fn router(&self, way: Way) -> Router {
        match way {
            Way::Bare => self.bare.clone(),
            Way::PassedOn => self.passed_on.clone(),
            Way::ExtractFirst | Way::ExtractAgain => self.extract.clone(),
            Way::ReplayFirst | Way::ReplayAgain => self.replay.clone(),
        }
    }

    /// The first error of a handler.
    pub(super) fn trouble(&self) -> String {
        self.trouble.get().map_or("no handler failed", String::as_str).to_owned()
    }

    /// Waits until nothing is under way any more: handlers that were detached from their client, transactions that are
    /// rolled back.
    pub(super) async fn settle(&self) -> anyhow::Result<()> {
        let still_running = self.replay_layer.drained(SETTLE_LIMIT).await;
        ensure!(still_running == 0, "{still_running} handlers still run after {SETTLE_LIMIT:?}");
        let deadline = Instant::now() + SETTLE_LIMIT;
        while self.pool.num_idle() < self.pool.size() as usize {
            ensure!(Instant::now() < deadline, "a connection is still in use after {SETTLE_LIMIT:?}");
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }
}

fn scope(operation: &str) -> Result<Scope, leastlock_idempotency::KeyError> {
    Scope::new("tenant-7", "user-3", operation)
}

/// Takes the units, and knows nothing of keys.
async fn bare<DB: KeyEngine>(State(desk): State<Arc<Desk<DB>>>, body: Bytes) -> Response<Body> {
    let placed = async {
        let order: Order = serde_json::from_slice(&body)?;
        made(&by_hand::bare(&desk.pool, &order).await?)
    };
    desk.answer(placed.await)
}

/// Begins with the key in the transaction that takes the units.
async fn begun<DB: KeyEngine>(
    State(desk): State<Arc<Desk<DB>>>,
    Extension(key): Extension<Key>,
    Extension(fingerprint): Extension<Fingerprint>,
    body: Bytes,
) -> Response<Body> {
    let placed = async {
        let order: Order = serde_json::from_slice(&body)?;
        Ok(match desk.keys.begin::<DB, HttpResponse>(&desk.pool, &key, &fingerprint).await? {
            Begin::First(mut unit) => {
                let made = made(&by_hand::effect::<DB>(&mut *unit.tx(), &order).await?)?;
                unit.complete(stored(&made)?).await?;
                made.map(Body::from)
            }
            Begin::Replay(answer) => replayed(answer).ok().context("the stored answer cannot be read")?,
            Begin::Mismatch => Problem::Mismatch.into(),
            Begin::InFlight { retry_after } => Problem::InFlight { retry_after }.into(),
        })
    };
    desk.answer(placed.await)
}

fn made(receipt: &Receipt) -> anyhow::Result<Response<Bytes>> {
    let mut response = Response::new(Bytes::from(serde_json::to_vec(receipt)?));
    *response.status_mut() = StatusCode::CREATED;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

impl<DB: KeyEngine> Desk<DB> {
    fn answer<B: Into<Body>>(&self, placed: anyhow::Result<Response<B>>) -> Response<Body> {
        match placed {
            Ok(response) => response.map(Into::into),
            Err(error) => {
                self.trouble.get_or_init(|| format!("a handler failed: {error:#}"));
                let mut failed = Response::new(Body::empty());
                *failed.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                failed
            }
        }
    }
}
