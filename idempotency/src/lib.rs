//! Idempotency keys: a repeat is absorbed in the transaction of the effect.
//!
//! A client that got no answer sends its request again. With a key on it, the first request to come runs, and every
//! repeat gets the answer of the first. Claim, effect and answer are one transaction of the caller's database, so there is
//! no moment at which one of them exists without the others, and a crash needs no recovery: the transaction rolls back
//! and the key is free.
//!
//! ```
//! use leastlock_idempotency::{Begin, Fingerprint, Key, Keys, Scope};
//! # use sqlx::SqlitePool;
//! # #[derive(Debug)] enum Rejected { KeyReused, Busy(std::time::Duration) }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
//! # leastlock_idempotency::MIGRATIONS.run(&pool).await?;
//! # sqlx::raw_sql("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)").execute(&pool).await?;
//! # async fn place(pool: &SqlitePool, keys: &Keys, body: &str) -> Result<Result<i64, Rejected>, Box<dyn std::error::Error>> {
//! let key = Key::new(&Scope::new("tenant-7", "user-3", "place-order").unwrap(), "8f14e45f").unwrap();
//! let fingerprint = Fingerprint::request("POST", "/orders", "").json(body.as_bytes());
//!
//! Ok(match keys.begin(pool, &key, &fingerprint).await? {
//!     Begin::First(mut unit) => {
//!         let order: i64 = sqlx::query_scalar("INSERT INTO orders (item) VALUES ('lamp') RETURNING id")
//!             .fetch_one(&mut **unit.tx())
//!             .await?;
//!         Ok(unit.complete(order).await?) // stores the answer and commits
//!     }
//!     Begin::Replay(order) => Ok(order),
//!     Begin::Mismatch => Err(Rejected::KeyReused),
//!     Begin::InFlight { retry_after } => Err(Rejected::Busy(retry_after)),
//! })
//! # }
//! # let keys = Keys::default();
//! # assert!(matches!(place(&pool, &keys, r#"{"item": "lamp"}"#).await?, Ok(1)));
//! # assert!(matches!(place(&pool, &keys, r#"{ "item":"lamp" }"#).await?, Ok(1)), "a repeat gets the first answer");
//! # assert!(matches!(place(&pool, &keys, r#"{"item": "rug"}"#).await?, Err(Rejected::KeyReused)));
//! # Ok(())
//! # }
//! ```
//!
//! # What is stored
//! [`Unit::complete`] stores what it is given, a refusal like a success; [`Unit::release`] stores nothing and leaves the key
//! free. An answer is any serde type or an [`HttpResponse`] ([`response`]); one that must not lie in the table as it is can be
//! sealed ([`cipher`]) or stored as a reference ([`Unit::complete_reference`]).
//!
//! # What it does not promise
//! - Nothing about effects outside the database: a mail sent inside the unit is sent again when the transaction rolls
//!   back. Put an event in an outbox for those, or use the [phased mode](phased).
//! - A key is remembered for the retention (24 hours by default), no longer.
//! - A claim that its caller commits without an answer is not run again, and not answered either: see
//!   [`Error::CommittedWithoutAnswer`].
//!
//! | module | concept |
//! |---|---|
//! | [`key`] | scope and key: which request is meant |
//! | [`fingerprint`] | what the request says |
//! | [`keys`] | settings; `begin`, `begin_in`, `sweep` |
//! | [`phased`] | effects outside the database: claims with a lease, recorded steps |
//! | `http` (feature `tower`) | a layer for axum and any tower stack |
//! | `metrics` (feature `metrics`) | what both modes measure: names, units, labels |
//! | [`unit`](mod@unit) | the transaction of a first request, and its completion |
//! | [`response`] | what is stored as the answer: JSON, or an HTTP response byte for byte |
//! | [`cipher`] | answers that are encrypted before they are stored |
//! | [`error`] | what can go wrong, and whether a retry helps |

mod canonical;
pub mod cipher;
mod claim;
pub mod error;
pub mod fingerprint;
#[cfg(feature = "tower")]
pub mod http;
pub mod key;
pub mod keys;
mod measure;
#[cfg(feature = "metrics")]
pub mod metrics;
mod migrations;
mod own_transaction;
pub mod phased;
pub mod response;
mod setting;
mod sql;
pub mod unit;

pub use crate::cipher::Cipher;
pub use crate::error::Error;
pub use crate::fingerprint::Fingerprint;
pub use crate::key::{Key, KeyError, Scope};
pub use crate::keys::{Begin, BeginIn, Keys, KeysBuilder, OnDuplicate};
pub use crate::migrations::MIGRATIONS;
pub use crate::response::{HttpResponse, HttpResponseError, Response, ResponseParts};
pub use crate::setting::{Bound, SettingError};
pub use crate::sql::IdempotencySql;
pub use crate::unit::{Claim, Unit};
