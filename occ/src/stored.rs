//! What a row is made of, as `#[derive(Versioned)]` says it.

use leastlock_core::{Dialect, Row};
use sqlx::query::Query;
use sqlx::{Database, Decode, Encode, Type};

use crate::version::Version;

/// A value that stands for one row of a table with a version column.
///
/// Derived, never written by hand:
///
/// ```
/// use leastlock_occ::{Version, Versioned};
///
/// #[derive(Clone, Versioned)]
/// #[versioned(table = "account", key = "id", version = "version")]
/// struct Account {
///     id: String,
///     balance: i64,
///     version: Version,
/// }
/// ```
///
/// This gives `Account` the methods `load`, `lock_row`, `insert`, `update` and `delete` ([`row`](crate::row) has their contracts), and
/// `load_many`, `update_many` and `update_many_keeping_versions` ([`bulk`](crate::bulk) has theirs). An
/// update or delete is checked against the version that was loaded, and answers
/// [`Update::Conflict`](crate::Update::Conflict) or [`Delete::Conflict`](crate::Delete::Conflict) when somebody else
/// came between.
///
/// | attribute | meaning |
/// |---|---|
/// | `table = "account"`, `table = "bank.account"` | the table, with its schema if need be; quoted, so written exactly as the database has it |
/// | `key = "id"`, `key("warehouse", "code")` | the *fields* that are the primary key; `load` takes them in this order |
/// | `version = "version"` | the *field* that is the version: a [`Version`] or an `i64`. Its column is `BIGINT NOT NULL`; PostgreSQL's `INTEGER` is not read ([`Error::VersionType`](crate::Error::VersionType)) |
/// | `crate = "prelude::occ"` | where the generated code finds this crate. Needed only if it is seen through a crate of your own: as `leastlock-occ`, or in the facade `leastlock`, it is found under whatever name `Cargo.toml` gives it |
/// | `column = "…"`, on a field | the column, where it is not named like the field |
/// | `read_only`, on a field | the database makes the value (a generated column, a default, a trigger's): never written, read back after each write |
///
/// The struct is `Clone` and has named fields, each of a type that sqlx can encode and decode ([`Column`]). The key is
/// unique in the table: that is the table's primary key to ensure. On MySQL and MariaDB declare a key of text `VARBINARY`: the
/// collation of a text column would take `85123A` and `85123a` for one key, and blanks at the end for none. `String` reads
/// and writes it as UTF-8.
///
/// A field that may be NULL is an `Option`. A struct with a `read_only` field costs one more statement a write, which reads
/// these columns back; what the field holds at an `insert` is ignored. In a transaction they are what this write left. Without one, another
/// writer may come between the two statements, and they are what *it* left (or, after a delete, what they were): beside a version
/// that is stale by then, so that no write can follow from it.
///
/// [`sqlx::FromRow`] is not needed; the same struct may derive it as well, for queries of the application's own. There
/// `#[sqlx(rename = "…")]` says what `column` says here.
pub trait Versioned: Clone {
    /// The key by reference, as a tuple.
    type Key<'k>: Copy + PartialEq
    where
        Self: 'k;

    /// The key by value, as a tuple.
    #[doc(hidden)]
    type OwnedKey;

    /// The table.
    const TABLE: &'static str;

    /// For messages.
    #[doc(hidden)]
    const VERSION_COLUMN: &'static str;

    #[doc(hidden)]
    const HAS_READ_ONLY: bool;

    /// The key of this row.
    fn key(&self) -> Self::Key<'_>;

    #[doc(hidden)]
    fn borrowed(key: &Self::OwnedKey) -> Self::Key<'_>;

    /// Of two lifetimes, which `PartialEq` on the associated type has not.
    #[doc(hidden)]
    fn is_same_key(one: Self::Key<'_>, other: Self::Key<'_>) -> bool;

    /// The version that this value had when it was loaded.
    fn version(&self) -> Version;

    /// Takes the `read_only` fields of another value.
    #[doc(hidden)]
    fn adopt(&mut self, made: Self);

    #[doc(hidden)]
    fn set_version(&mut self, version: Version);
}

/// A [`Versioned`] row on a certain engine: its statements with the values bound. Derived along with [`Versioned`].
///
/// Generic code needs it as a bound: `async fn pay<DB: Dialect>(tx: &mut Transaction<'_, DB>) where Account: Stored<DB>`.
pub trait Stored<DB: Dialect>: Versioned {
    #[doc(hidden)]
    fn select(key: Self::Key<'_>) -> Query<'static, DB, DB::Arguments>;

    /// As [`select`](Self::select), locking the row for an update where the engine has row locks.
    #[doc(hidden)]
    fn lock(key: Self::Key<'_>) -> Query<'static, DB, DB::Arguments>;

    /// For SQLite: has the transaction take the write lock, and writes nothing.
    #[doc(hidden)]
    fn lock_file() -> Query<'static, DB, DB::Arguments>;

    #[doc(hidden)]
    fn insert(&self, version: Version) -> Query<'static, DB, DB::Arguments>;

    #[doc(hidden)]
    fn update(&self, expected: Version) -> Query<'static, DB, DB::Arguments>;

    #[doc(hidden)]
    fn delete(key: Self::Key<'_>, expected: Version) -> Query<'static, DB, DB::Arguments>;

    #[doc(hidden)]
    fn actual(key: Self::Key<'_>) -> Query<'static, DB, DB::Arguments>;

    /// Column 0 is the version, which the caller has checked.
    #[doc(hidden)]
    fn read(row: &Row<DB>, version: Version) -> Result<Self, sqlx::Error>;

    /// For at least one and at most [`MAX_ROWS`](crate::bulk::MAX_ROWS) keys; columns as [`read`](Self::read) takes them.
    #[doc(hidden)]
    fn select_many(keys: &[Self::Key<'_>]) -> Query<'static, DB, DB::Arguments>;

    /// The same for the version and the key only, locking the rows in the order of the key.
    #[doc(hidden)]
    fn lock_many(keys: &[Self::Key<'_>]) -> Query<'static, DB, DB::Arguments>;

    /// Reads the key from a row of [`lock_many`](Self::lock_many).
    #[doc(hidden)]
    fn read_key(row: &Row<DB>) -> Result<Self::OwnedKey, sqlx::Error>;

    /// For at least one and at most [`UPDATED_AT_ONCE`](crate::bulk::UPDATED_AT_ONCE) rows, each against the version that
    /// the value has.
    #[doc(hidden)]
    fn update_many(rows: &[&Self], versions: Versions) -> Query<'static, DB, DB::Arguments>;
}

/// What a bulk update does to the versions.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Versions {
    Raised,
    Kept,
}

/// A type that a column can have on `DB`: everything that sqlx can encode and decode there.
pub trait Column<DB: Database>: Type<DB> + for<'q> Encode<'q, DB> + for<'r> Decode<'r, DB> {}

impl<DB: Database, T> Column<DB> for T where T: Type<DB> + for<'q> Encode<'q, DB> + for<'r> Decode<'r, DB> {}
