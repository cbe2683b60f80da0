//! A thin lease with a fencing token that the resource checks.
//!
//! A lease is the last resort: first look whether a conditional statement, an idempotency key, a version column or one
//! writer per key will do. What is left here is work of which at most one holder may take effect at a time, and whose double
//! run would corrupt data.
//!
//! # What it guarantees
//! - **Of two holders, the resource takes the newer.** A lease alone cannot promise one holder: one that is paused for longer
//!   than its TTL wakes up and believes that it still holds. So a [`CorrectnessLease`] yields [`Permit`]s, and the resource's
//!   [`Fence`] refuses every transaction whose generation is not the sealed one.
//! - **Lost is noticed before use.** A permit is checked against the machine's boot clock when it is asked for and when it
//!   is used; a lease that ran out during a pause or a suspension gives none. Lost is final.
//! - **A time-out is not an answer.** An unanswered acquisition is repeated under the same nonce and keeps its token; an
//!   unanswered renewal makes the lease unconfirmed, and neither extends nor ends it; a lease whose work has an unknown outcome
//!   is not released.
//! - **Whoever dies blocks others for as long as the store's lease lasts.** On SQL and Redis that is the TTL at most. etcd counts whole
//!   seconds and has a shortest (2 s as it comes), ZooKeeper ends a session by its negotiated time-out, whatever the TTL, and an advisory
//!   lock is free when the server knows that the session is over. A stopped process holds the guard row, on PostgreSQL and in a
//!   transaction of [`Fence::begin`] on MariaDB, until its transaction's idle time-out.
//! - **What a store cannot do is in its type.** A [`CorrectnessLease`] comes only from a [`FencedStore`]; an
//!   [`EfficiencyLease`] comes from any store, and nothing protected takes it.
//!
//! # What it does not promise
//! - That only one process *runs*. Effects outside the fenced resource (a mail, a call) can happen twice.
//! - Anything about writers that do not check, or about late writes before the new holder has sealed: seal first.
//! - Fairness over processes, unless the store is a [`FairStore`]: SQL and Redis give a free lock to whoever asks first. The waiters
//!   of one process take turns.
//! - On SQLite, that a stopped writer does not block the file.
//!
//! # Example
//! ```
//! use std::time::Duration;
//! use leastlock_lease::{Fence, Hold, Leases, LockName, SqlLeaseStore};
//! # use sqlx::{Sqlite, Transaction};
//!
//! # async fn write_report(tx: &mut Transaction<'_, Sqlite>) -> Result<(), sqlx::Error> {
//! #     sqlx::query("INSERT INTO report VALUES (7, 'done')").execute(&mut **tx).await.map(drop)
//! # }
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
//! # sqlx::raw_sql("CREATE TABLE report (tenant INTEGER PRIMARY KEY, body TEXT)").execute(&pool).await?;
//! leastlock_lease::MIGRATIONS.run(&pool).await?;
//! let leases = Leases::new(SqlLeaseStore::new(&pool));
//! let fence = Fence::new("report:tenant-7")?;
//!
//! # let work = async move {
//! let lease = leases.acquire(&LockName::new("report:tenant-7")?, Hold::renewed(Duration::from_secs(30))).await?;
//! lease.run(async |scope| {
//!     let permit = scope.permit()?;
//!     fence.seal(&pool, &permit).await?;                             // from here on, older holders are refused
//!     let mut tx = pool.begin().await?;
//!     fence.check(&mut tx, &permit).await?;                          // and this transaction is protected
//!     write_report(&mut tx).await?;
//!     Ok(tx.commit().await?)
//! }).await?;
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! # };
//! # tokio::spawn(work).await??;
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//! | module | concept |
//! |---|---|
//! | `lock_name`, `token` | [`LockName`]; [`FencingToken`], [`OwnerNonce`] |
//! | `hold`, `clock`, `state` | how long ([`Hold`]), by which clock ([`Clock`]), and what may be believed ([`LeaseStatus`]) |
//! | `store`, `capabilities` | what a lock store must do ([`LeaseStore`], [`FencedStore`]) and says of itself ([`Capabilities`]) |
//! | `sql_store`, `sql`; `redis`, `etcd`, `zookeeper` | the stores in SQL ([`SqlLeaseStore`]), Redis (`RedisLeaseStore`, `RedlockStore`), etcd (`EtcdLeaseStore`) and ZooKeeper (`ZooKeeperLeaseStore`), the latter with the feature of their module |
//! | `advisory` | the server's own locks ([`AdvisoryLeaseStore`], features `postgres` and `mysql`) |
//! | `queue`, `wake` | the waiters of one process, and how they hear of other processes ([`Waiter`]) |
//! | `leases`, `acquire`, `renewal`, `release` | a lease's life: [`Leases`], [`Acquire`], [`Released`] |
//! | `kind`, `lease`, `accessors` | [`CorrectnessLease`] and [`EfficiencyLease`], two kinds of one [`Lease`] |
//! | `run`, `scope`, `work_error` | the work under a lease, and how that ends |
//! | `once` | work that is done once a period ([`Leases::once`], [`Period`]) |
//! | `election` | a leader among many ([`Election`]), and who looks ([`Observer`]) |
//! | `budget` | how long a TTL must be ([`LeaseBudget`]) |
//! | `admin` | what operators see ([`Inspect`]), and how they take a lock away ([`Forced`]) |
//! | `metrics` | what is measured (feature `metrics`) |
//! | `permit`, `fence` | [`Permit`], and the resource that checks it ([`Fence`]) |
//! | `table`, `file`, `object` | other resources: rows ([`FencedTable`]), files ([`FencedFile`]), objects (`FencedObject`, feature `object-store`) |
//! | `record`, `owner_mark` | what stands at a file or an object, and for an owner where others can read it |
//! | `http` | the header `Fencing-Token`, and a layer that checks it (feature `tower`) |
//!
//! # Logging
//! Lease events (acquired, renewal failed, lost, released, handed on, left to expire, taken away, late write refused, seal waits, tasks outlived,
//! period done)
//! are logged at INFO, a failed renewal and a loss at WARN, with the target `leastlock_lease`: lock, token, owner as a short hash, job, times. Nothing else is
//! logged above TRACE.

mod accessors;
mod acquire;
mod admin;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod advisory;
mod budget;
mod capabilities;
mod clock;
#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
mod connecting;
mod election;
mod error;
#[cfg(feature = "etcd")]
mod etcd;
mod event;
mod fence;
mod file;
mod held;
mod hold;
#[cfg(feature = "tower")]
pub mod http;
mod kind;
mod lease;
mod leases;
mod lock_name;
mod measure;
#[cfg(feature = "metrics")]
pub mod metrics;
mod migrations;
#[cfg(feature = "object-store")]
mod object;
mod once;
mod owner_mark;
mod permit;
mod queue;
mod record;
#[cfg(feature = "redis")]
mod redis;
mod release;
mod renewal;
mod run;
mod scope;
mod sql;
mod sql_store;
mod state;
mod store;
mod table;
mod token;
mod wake;
mod work_error;
#[cfg(feature = "zookeeper")]
mod zookeeper;

pub use crate::acquire::Acquire;
pub use crate::admin::{Approval, AuditEntry, AuditOutcome, Forced, Inspect, LockRecord, Seizure, Standing, audit};
#[cfg(feature = "postgres")]
pub use crate::advisory::lock_in_transaction;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub use crate::advisory::{AdvisoryLeaseStore, AdvisorySql, AdvisoryWaiter};
pub use crate::budget::{LeaseBudget, Tail};
pub use crate::capabilities::{Capabilities, FloorRule, LeaseEnding, Order, WakeUp};
pub use crate::clock::{BootClock, BootTime, Clock};
pub use crate::election::{Election, HandedOver, Leadership, Led, Observer};
pub use crate::error::Error;
#[cfg(feature = "etcd")]
pub use crate::etcd::{EtcdLeaseStore, EtcdWaiter};
pub use crate::fence::{Blocker, Fence, Protected, Refusal, Sealed};
pub use crate::file::{Draft, FencedFile};
pub use crate::hold::Hold;
pub use crate::kind::{Correctness, Efficiency, Kind};
pub use crate::lease::{CorrectnessLease, EfficiencyLease, Lease};
pub use crate::leases::Leases;
pub use crate::lock_name::LockName;
pub use crate::migrations::MIGRATIONS;
#[cfg(feature = "object-store")]
pub use crate::object::FencedObject;
pub use crate::once::{Completed, Done, Marked, Once, Period, Turn};
pub use crate::permit::Permit;
#[cfg(feature = "redis")]
pub use crate::redis::{
    AcceptBestEffortToken, Durability, Durable, RedisLeaseStore, RedisWaiter, RedlockStore, Undurable,
};
pub use crate::release::Released;
pub use crate::run::{Ending, Finished};
pub use crate::scope::Scope;
pub use crate::sql::LeaseSql;
pub use crate::sql_store::SqlLeaseStore;
pub use crate::state::{LeaseStatus, LossReason};
pub use crate::store::{
    Claim, FairStore, FencedStore, Grant, Holder, LeaseStore, Pause, Polling, Release, Renewal, StoreError, StoreToken,
    Waiter,
};
pub use crate::table::{FencedTable, FencedUpdate, RowRule, TableBuilder};
pub use crate::token::{FencingToken, OwnerHash, OwnerNonce};
pub use crate::work_error::WorkError;
#[cfg(feature = "zookeeper")]
pub use crate::zookeeper::{ZooKeeperLeaseStore, ZooKeeperWaiter};
