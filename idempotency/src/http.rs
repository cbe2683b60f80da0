//! Idempotency keys over HTTP (feature `tower`): a layer for axum and any other tower stack, with the semantics of
//! [draft-ietf-httpapi-idempotency-key-header-07](https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/07/).
//!
//! | mode | who claims the key | for handlers whose effects are |
//! |---|---|---|
//! | [extract](IdempotencyLayer::extract) | the handler, in the transaction of its own writes | in the database of the keys |
//! | [replay](IdempotencyLayer::replay) | the layer, with a lease | elsewhere |
//!
//! Prefer extract mode: claim, effect and answer are one transaction there, so nothing can be lost between them. The layer
//! checks the header, hashes the body up to a limit, and puts [`Key`](crate::Key) and [`Fingerprint`](crate::Fingerprint)
//! into the request's extensions:
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use axum::body::Body;
//! use axum::extract::State;
//! use axum::http::{Request, Response, StatusCode};
//! use axum::routing::post;
//! use axum::{Extension, Router};
//! use leastlock_idempotency::http::{IdempotencyLayer, Problem, Unscoped, replayed, stored};
//! use leastlock_idempotency::{Begin, Fingerprint, Key, Keys, Scope};
//! use sqlx::SqlitePool;
//!
//! async fn place_order(
//!     State(pool): State<SqlitePool>,
//!     Extension(key): Extension<Key>,
//!     Extension(fingerprint): Extension<Fingerprint>,
//!     item: String,
//! ) -> Result<Response<Body>, Response<Body>> {
//!     let failed = |_| Problem::StoreFailed { retry_after: None };
//!     match Keys::default().begin(&pool, &key, &fingerprint).await.map_err(Problem::from)? {
//!         Begin::First(mut unit) => {
//!             let insert = sqlx::query_scalar("INSERT INTO orders (item) VALUES ($1) RETURNING id").bind(&item);
//!             let id: i64 = insert.fetch_one(&mut **unit.tx()).await.map_err(failed)?;
//!             let mut made = Response::new(format!("{item} is yours"));
//!             *made.status_mut() = StatusCode::CREATED;
//!             made.headers_mut().insert("location", format!("/orders/{id}").parse().unwrap());
//!             unit.complete(stored(&made).unwrap()).await.map_err(Problem::from)?; // stores the answer and commits
//!             Ok(made.map(Body::from))
//!         }
//!         Begin::Replay(answer) => Ok(replayed(answer)?),
//!         Begin::Mismatch => Err(Problem::Mismatch.into()),
//!         Begin::InFlight { retry_after } => Err(Problem::InFlight { retry_after }.into()),
//!     }
//! }
//!
//! let idempotency = IdempotencyLayer::extract(|parts| {
//!     // Whoever authenticated the request put the user there.
//!     let user = parts.extensions.get::<&'static str>().ok_or(Unscoped::status(StatusCode::UNAUTHORIZED))?;
//!     Ok(Scope::new("tenant-7", user, "place-order")?)
//! });
//! # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
//! # leastlock_idempotency::MIGRATIONS.run(&pool).await?;
//! # sqlx::raw_sql("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)").execute(&pool).await?;
//! let app: Router = Router::new()
//!     .route("/orders", post(place_order))
//!     .layer(idempotency.build()?)
//!     .layer(Extension("user-3"))
//!     .with_state(pool);
//! # use tower_service::Service;
//! # let ask = |key: Option<&str>, item: &'static str| {
//! #     let mut request = Request::post("/orders");
//! #     if let Some(key) = key { request = request.header("idempotency-key", key) }
//! #     app.clone().into_service().call(request.body(Body::from(item)).unwrap())
//! # };
//! # let first = ask(Some("\"8e03978e\""), "a lamp").await?;
//! # let repeat = ask(Some("\"8e03978e\""), "a lamp").await?;
//! # assert!(first.status() == 201 && first.headers()["location"] == "/orders/1");
//! # assert!(repeat.status() == 201 && repeat.headers()["location"] == "/orders/1");
//! # assert_eq!(repeat.headers()["idempotency-replayed"], "true");
//! # assert_eq!(ask(Some("\"8e03978e\""), "a rug").await?.status(), 422);
//! # assert_eq!(ask(None, "a lamp").await?.status(), 400);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! In replay mode the handler knows nothing of keys, and every route below the layer has them:
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use axum::Router;
//! use axum::routing::post;
//! use leastlock_idempotency::Scope;
//! use leastlock_idempotency::http::IdempotencyLayer;
//! use leastlock_idempotency::phased::Phased;
//!
//! # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
//! # leastlock_idempotency::MIGRATIONS.run(&pool).await?;
//! let idempotency = IdempotencyLayer::replay(&pool, Phased::default(), |parts| {
//!     # let user = "user-3";
//!     Ok(Scope::new("tenant-7", user, parts.uri.path())?)
//! });
//! let app: Router = Router::new()
//!     .route("/mails", post(async || "sent"))
//!     .layer(idempotency.accept_bare_keys().build()?);
//! # use axum::{body::Body, http::Request};
//! # use tower_service::Service;
//! # let ask = || {
//! #     let request = Request::post("/mails").header("idempotency-key", "8e03978e").body(Body::empty()).unwrap();
//! #     app.clone().into_service().call(request)
//! # };
//! # let (first, repeat) = (ask().await?, ask().await?);
//! # assert!(!first.headers().contains_key("idempotency-replayed"));
//! # assert_eq!(repeat.headers()["idempotency-replayed"], "true");
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! # What holds
//! - Safe methods (`GET`, `HEAD`, `OPTIONS`, `TRACE`) pass through. So do `PUT` and `DELETE`, unless they are
//!   [covered](LayerBuilder::cover_put_and_delete). Every other method needs a key: there is no record that requests without one
//!   would share.
//! - What the layer answers itself is a [`Problem`]. If the store fails that is 503: a request is never let through unprotected.
//! - The fingerprint is method, path, query and body; JSON in canonical form if the request says that it is JSON.
//!
//! # What holds in replay mode
//! - Claim, handler and completion run in a task of their own. A client that hangs up ends nothing; a repeat gets the answer.
//!   Task-locals of the caller are not there; the tracing span is.
//! - An answer is given out only once it is recorded. If that fails, the client is told to ask again
//!   ([`Problem::NotRecorded`]), and a success that a client has seen is never run again.
//! - The answer is held in memory until it is whole, up to the [limit](crate::phased::PhasedBuilder::max_response_bytes). A larger
//!   one, or one with trailers, reaches its client and is not kept: its key is completed with [`Problem::AnswerNotKept`] for
//!   repeats, since the effect has happened. What a body does as it streams beyond the limit ends with its client.
//! - An answer that must not be stored reaches its client as well: [`Outcome::CompleteUnkept`] completes the key without it, and
//!   repeats get [`Problem::AnswerNotKept`] with its status, and a [`Reference`] if the handler gives one.
//! - A replay has the same status, the same headers in the same order with their repeats, and the same bytes. Left out are headers that
//!   belong to one connection: `Connection` and what it names, `Keep-Alive`, `Proxy-Connection`, `TE`, `Trailer`,
//!   `Transfer-Encoding`, `Upgrade`. `Idempotency-Replayed: true` is added. `Set-Cookie` is an answer's header like any other.
//! - What becomes of the key is the handler's to say ([`Outcome`]), and nothing else frees it; by default a status of 408, 425, 429
//!   or 5xx, a panic, a handler that takes longer than [`max_run`](LayerBuilder::max_run) and an answer that breaks off hold it, since the effect may have happened. A held
//!   key is answered [`Problem::OutcomeUnknown`] until somebody has [resolved](crate::phased::Phased::resolve) it: as
//!   `Resolution::completed` with the [`HttpResponse`](crate::HttpResponse) for repeats, or as `Resolution::released`, after which a
//!   repeat runs.
//! - A handler that is lost with its process leaves its key in flight until the lease is over; then it is [`Abandoned`].
//! - Nothing waits for the store without a limit: a claim takes [`max_claim`](LayerBuilder::max_claim) at most and the end of a key
//!   [`max_record`](LayerBuilder::max_record), whatever the pool's and the driver's time-outs are.
//! - At most [`max_running`](LayerBuilder::max_running) requests are under way, those included whose body is being read. On shutdown, wait for those whose client is gone
//!   with [`drained`](IdempotencyLayer::drained).

mod admission;
mod answer;
mod body;
mod extract;
mod key_header;
mod layer;
#[cfg(feature = "metrics")]
pub mod metrics;
mod outcome;
mod problem;
mod replay;
mod report;
mod scope;

pub use self::answer::{IDEMPOTENCY_REPLAYED, replayed, stored};
pub use self::body::Buffered;
pub use self::extract::Extract;
pub use self::key_header::IDEMPOTENCY_KEY;
pub use self::layer::{IdempotencyLayer, Idempotent, LayerBuilder, LayerError, Mode};
pub use self::outcome::{Abandoned, Outcome, Reference};
pub use self::problem::{Problem, type_uri};
pub use self::replay::Replay;
pub use self::scope::Unscoped;
