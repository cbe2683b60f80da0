//! Use the least lock that is still correct.
//!
//! A distributed lock fails in ways a mutex never does: its holder can stop for longer than its lease and wake up believing
//! that it still holds it. So ask in this order, and take the first that fits.
//!
//! | # | question | mechanism | module |
//! |---|---|---|---|
//! | 1 | Can one statement decide it? | conditional `UPDATE`, unique key | [`occ::guarded`] |
//! | 2 | Can a repeat be absorbed? | idempotency key, in the same transaction as the effect; in recorded steps where the effect is elsewhere | [`idempotency`] |
//! | 3 | Can a conflict be detected and retried? | version column | [`occ`] |
//! | 3b | Must several statements see one row unchanged? | `SELECT … FOR UPDATE` in your transaction, no external call inside | [`occ::row::lock_row`] |
//! | 4 | Can one writer own each key? | Kafka partition, a lane per key, an epoch in the database | [`partition_worker`] |
//! | 5 | Must another system hear of it? | transactional outbox | [`outbox`] |
//! | 6 | None of these? | a lease whose fencing token the resource checks | [`lease`] |
//!
//! In [`occ`] are also [`Retry`](occ::Retry), which runs a unit of work again that met another one, [`Transition`](occ::Transition), a
//! state machine in a column, [`StockCounter`](occ::StockCounter), for a row that everybody wants, and with feature `http` versions as
//! entity tags.
//!
//! Each mechanism is a crate of its own and depends on none of the others: where an application combines them it does so in
//! its own transaction. This crate has no logic; it brings them together under one version.
//!
//! ```
//! use leastlock::idempotency::{Begin, Fingerprint, Key, Keys, Scope};
//! use leastlock::occ::guarded;
//! use leastlock::outbox::{Event, Outbox};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
//! # sqlx::raw_sql("CREATE TABLE stock (code TEXT PRIMARY KEY, units INTEGER); INSERT INTO stock VALUES ('85123A', 5)").execute(&pool).await?;
//! leastlock::idempotency::MIGRATIONS.run(&pool).await?;
//! leastlock::outbox::MIGRATIONS.run(&pool).await?;
//! let (keys, outbox) = (Keys::default(), Outbox::open(&pool).await?);
//!
//! // One transaction: the claim of the key, the stock, the event, the answer.
//! let key = Key::new(&Scope::new("tenant-7", "user-3", "take-stock")?, "8f14e45f")?;
//! let fingerprint = Fingerprint::of_parts(["85123A", "3"]);
//! let answer: String = match keys.begin(&pool, &key, &fingerprint).await? {
//!     Begin::First(mut unit) => {
//!         let take = sqlx::query("UPDATE stock SET units = units - $1 WHERE code = $2 AND units >= $1");
//!         let taken = guarded(take.bind(3).bind("85123A")).execute(&mut **unit.tx()).await?;
//!         if taken.is_refused() {
//!             unit.complete("sold out".to_owned()).await?
//!         } else {
//!             outbox.append(unit.tx(), Event::new("stock-moves", "85123A").json(&-3)?).await?;
//!             unit.complete("three are yours".to_owned()).await?
//!         }
//!     }
//!     Begin::Replay(answer) => answer,
//!     Begin::Mismatch => "this key was used for another request".to_owned(),
//!     Begin::InFlight { retry_after } => format!("ask again in {retry_after:?}"),
//! };
//! assert_eq!(answer, "three are yours");
//! # Ok(())
//! # }
//! ```

pub use leastlock_core as core;
#[cfg(feature = "idempotency")]
pub use leastlock_idempotency as idempotency;
#[cfg(feature = "lease")]
pub use leastlock_lease as lease;
#[cfg(feature = "occ")]
pub use leastlock_occ as occ;
#[cfg(feature = "outbox")]
pub use leastlock_outbox as outbox;
#[cfg(feature = "partition-worker")]
pub use leastlock_partition_worker as partition_worker;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
