//! Fencing tokens over HTTP (feature `tower`): a client sets the header from its permit, a layer for axum and any other tower
//! stack checks it against the guard row.
//!
//! For a resource whose writers are other processes' requests: the lease is held by the client, the [`Fence`] is the service's.
//!
//! | side | what it does |
//! |---|---|
//! | client | [`bring`] sets `Fencing-Token` on each request, and refuses a lease that is over |
//! | service | [`FencingLayer`] judges the header before the handler runs, and hands a [`Fenced`] to it |
//! | handler | [`Fenced::begin`] is the transaction in which the generation is checked; it writes in that, and commits it |
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use axum::body::Body;
//! use axum::http::{Request, Response, StatusCode};
//! use axum::routing::post;
//! use axum::{Extension, Router};
//! use leastlock_lease::http::{Fenced, FencingLayer, Problem, bring};
//! use leastlock_lease::{Fence, Hold, Leases, LockName, SqlLeaseStore};
//! use sqlx::Sqlite;
//!
//! async fn rewrite(Extension(fenced): Extension<Fenced<Sqlite>>, body: String) -> Result<StatusCode, Response<Body>> {
//!     let failed = |_| Problem::StoreFailed { retry_after: None };
//!     let mut tx = fenced.begin().await?;                             // refused here, whatever was judged before
//!     let update = sqlx::query("UPDATE report SET body = $1").bind(body);
//!     update.execute(&mut **tx).await.map_err(failed)?;
//!     tx.commit().await.map_err(|_| Problem::StoreFailed { retry_after: None })?;
//!     Ok(StatusCode::NO_CONTENT)
//! }
//!
//! # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
//! # leastlock_lease::MIGRATIONS.run(&pool).await?;
//! # sqlx::raw_sql("CREATE TABLE report (body TEXT); INSERT INTO report VALUES ('')").execute(&pool).await?;
//! // Only callers that are authenticated get here: a token is a number that anybody can write.
//! let fencing = FencingLayer::new(&pool, |_parts| Fence::new("report:tenant-7")).seal_newer();
//! let app: Router = Router::new().route("/report", post(rewrite)).layer(fencing);
//!
//! // The client.
//! # let leases = Leases::new(SqlLeaseStore::new(&pool));
//! let lease = leases.acquire(&LockName::new("report:tenant-7")?, Hold::renewed(Duration::from_secs(30))).await?;
//! let mut request = Request::post("/report").body(Body::from("done"))?;
//! bring(&lease.permit()?, request.headers_mut())?;
//! # use tower_service::Service;
//! # assert_eq!(app.clone().into_service().call(request).await?.status(), 204);
//! # let none = Request::post("/report").body(Body::from("late"))?;
//! # assert_eq!(app.clone().into_service().call(none).await?.status(), 428);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! # What holds
//! - A transaction of [`Fenced::begin`] or [`Fenced::check`] commits only under the newest generation, as that of a
//!   [`Fence::begin`]: generation *and* owner are those that are sealed.
//! - A request without a token is refused (428), as is one whose token has been superseded (412), before its body is read. Safe
//!   methods (`GET`, `HEAD`, `OPTIONS`, `TRACE`) pass through without one.
//! - The header carries no secret: of the owner's nonce it has a hash only, which does not release the lease.
//!
//! # What does not
//! - The layer alone protects nothing. A handler that writes without [`Fenced::begin`] can be overtaken between the look and its
//!   write.
//! - Before the new holder has sealed, a late request is not refused. A holder that can reach the database seals there
//!   ([`Fence::seal`]); for others [`seal_newer`](FencingLayer::seal_newer) has the first request of a generation seal, so let
//!   that be the holder's first act.
//! - A holder that was sealed by its request writes by requests: to a [`Fence::check`] in the database it is another owner. One that
//!   does both seals in the database first.
//! - Whoever may send requests can name any number; with `seal_newer` a very large one shuts all others out. Authenticate.

mod fenced;
mod header;
mod layer;
mod problem;

#[cfg(doc)]
use crate::fence::Fence;

pub use self::fenced::Fenced;
pub use self::header::{FENCING_TOKEN, bring};
pub use self::layer::{Fencing, FencingLayer};
pub use self::problem::Problem;
