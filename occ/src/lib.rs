//! Optimistic concurrency control: guarded statements and versioned values.
//!
//! # What it guarantees
//! - A conditional statement answers [`Guarded::Applied`] or [`Guarded::Refused`]; "ran without error" is never an answer.
//!   A statement that changed more rows than allowed cannot be committed.
//! - A versioned value is written or deleted only if its row still has the version that was loaded, and exactly one of any
//!   number of concurrent writers of one version succeeds. The others learn whether the row is [`Stale`](Conflict::Stale)
//!   or [`Gone`](Conflict::Gone), and the version that now stands in the table.
//! - Operations that a [`Combiner`](combiner::Combiner) takes are applied in the order of their arrival, many in one
//!   transaction, each answered alone and only after the commit; a [`StockCounter`] takes no row below its floor, and applies
//!   an order id once.
//! - A bulk update locks in the order of the key, checks each row, and raises its version; a [`Transition`] goes along
//!   declared edges only.
//! - The value that was loaded never changes. A conflict, an error or a rollback leaves nothing to restore.
//!
//! # What it does not
//! - A write that does not check, such as raw SQL elsewhere, is not seen unless it raises the version.
//! - Versions protect one row. A rule over several rows needs a row that stands for the rule, or SERIALIZABLE.
//! - No statement is retried: a conflict is an answer. [`Retry`] runs the whole unit of work again, for those who ask for it.
//!   (A [`Combiner`](combiner::Combiner) owns its transactions, and retries those that a deadlock ended.)
//!
//! # Example
//! ```
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use leastlock_occ::{Conflict, Update, Version, Versioned};
//!
//! #[derive(Debug, Clone, Versioned)]
//! #[versioned(table = "account", key = "id", version = "version")]
//! struct Account {
//!     id: String,
//!     balance: i64,
//!     version: Version,
//! }
//!
//! # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
//! # sqlx::query("CREATE TABLE account (id TEXT PRIMARY KEY, balance INTEGER NOT NULL, version INTEGER NOT NULL)").execute(&pool).await?;
//! let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
//! Account { id: "a".into(), balance: 100, version: Version::FIRST }.insert(&mut *tx).await?;
//!
//! let account = Account::load(&mut *tx, "a").await?.ok_or("no such account")?;
//! match account.update(&mut *tx, |a| a.balance -= 10).await? {
//!     Update::Applied(next) => println!("now at version {}", next.version),
//!     Update::Conflict(conflict) => println!("{conflict}"), // stale: expected 3, found 5
//! }
//!
//! // The value as loaded is still the value as loaded, so a second update from it is stale.
//! let second = account.update(&mut *tx, |a| a.balance -= 10).await?;
//! assert!(matches!(second, Update::Conflict(Conflict::Stale { .. })));
//! tx.commit().await?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! # Modules
//! | module | concept |
//! |---|---|
//! | `guarded` | [`guarded()`]: one conditional statement whose row count is its answer |
//! | `insert_once` | [`insert_once()`]: one insert of which the unique key says whether it is the first |
//! | `bound` | [`Bound`]: how many rows it may change |
//! | `version` | [`Version`]: the version of a row |
//! | `conflict` | [`Conflict`], [`Update`], [`Delete`]: what a checked write found |
//! | `versioned` | [`versioned()`]: a checked update in the caller's own SQL |
//! | `stored` | [`Versioned`], [`Stored`], [`Column`]: what a row is made of, and the derive macro |
//! | [`row`] | load, insert, update and delete of such a row |
//! | [`bulk`] | the same for many rows: load, and a checked update that locks in order |
//! | [`bump_version`] | a trigger for writers that raise no version, as SQL |
//! | [`transition`] | [`Transition`]: a state machine in a column, and the derive macro |
//! | `etag` (feature `http`) | a version as an entity tag, and the conditions on it |
//! | `retry` | [`Retry`]: a whole unit of work again, when it met another one; [`MayConflict`]: which errors that are, and the derive macro |
//! | `metrics` (feature `metrics`) | what retries and combiners measure: names, units, labels |
//! | [`combiner`] | [`Combiner`](combiner::Combiner): operations of many callers in one transaction a batch |
//! | `stock_counter` | [`StockCounter`]: units taken and given back, never below a floor, by a combiner |
//! | `migrations` | [`MIGRATIONS`]: the tables that only a counter needs |
//! | `error` | [`Error`], and whether a retry can help |

mod bound;
pub mod bulk;
pub mod bump_version;
#[cfg_attr(
    not(any(feature = "postgres", feature = "sqlite", feature = "mysql")),
    allow(dead_code, reason = "there is no engine to use it")
)]
pub mod combiner;
mod conflict;
mod error;
#[cfg(feature = "http")]
pub mod etag;
mod guarded;
mod insert_once;
mod measure;
#[cfg(feature = "metrics")]
pub mod metrics;
mod migrations;
mod retry;
pub mod row;
#[cfg_attr(
    not(any(feature = "postgres", feature = "sqlite", feature = "mysql")),
    allow(dead_code, reason = "there is no engine to use it")
)]
mod stock_counter;
mod stored;
pub mod transition;
mod version;
mod versioned;

pub use leastlock_occ_macros::{MayConflict, Transition, Versioned};

pub use crate::bound::Bound;
pub use crate::conflict::{Conflict, Delete, Update};
pub use crate::error::Error;
pub use crate::guarded::{BoundedQuery, Guarded, GuardedQuery, guarded};
pub use crate::insert_once::{InsertOnce, Insertion, insert_once};
pub use crate::migrations::MIGRATIONS;
pub use crate::retry::{Attempt, Attempts, Committed, ConflictClass, MayConflict, Retry, RetryError};
pub use crate::stock_counter::{
    Beside, Counted, IdentifierError, Movement, MovementError, Nothing, StockCounter, StockCounterBuilder, StockSql,
    StockTable,
};
pub use crate::stored::{Column, Stored, Versioned};
pub use crate::transition::{StateConflict, StoredState, Transition, Transitioned};
pub use crate::version::Version;
pub use crate::versioned::{Checked, CheckedQuery, VersionedQuery, versioned};

/// What the generated code names; no part of the API.
#[doc(hidden)]
pub mod __private {
    use leastlock_core::Engine;
    pub use leastlock_core::{Dialect, Row};
    pub use sqlx::query::Query;
    pub use sqlx::{Connection, Database, Error as SqlxError, Transaction, query};

    pub use crate::bulk::{padded, sized};
    pub use crate::stored::Versions;

    /// The text that `DB` understands.
    #[must_use]
    pub const fn sql<DB: Dialect>(standard: &'static str, mysql: &'static str) -> &'static str {
        match DB::ENGINE {
            Engine::MySql => mysql,
            _ => standard,
        }
    }

    /// Whether `DB` binds as MySQL does: each `?` once, in the order of the text.
    #[must_use]
    pub const fn is_mysql<DB: Dialect>() -> bool {
        matches!(DB::ENGINE, Engine::MySql)
    }

    /// A text in several sizes.
    pub type Sized = &'static [(usize, &'static str)];

    /// The text that `DB` understands.
    #[must_use]
    pub const fn each_text<DB: Dialect>(
        postgres: &'static str,
        sqlite: &'static str,
        mysql: &'static str,
    ) -> &'static str {
        match DB::ENGINE {
            Engine::MySql => mysql,
            Engine::Sqlite => sqlite,
            _ => postgres,
        }
    }

    /// The one that `DB` understands.
    #[must_use]
    pub const fn each<DB: Dialect>(postgres: Sized, sqlite: Sized, mysql: Sized) -> Sized {
        match DB::ENGINE {
            Engine::MySql => mysql,
            Engine::Sqlite => sqlite,
            _ => postgres,
        }
    }
}
