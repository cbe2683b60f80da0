//! A table whose rows carry their own fence: the column form.

mod names;
mod set;
mod trigger;
mod update;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use leastlock_core::{Row, classify};
use sqlx::{AssertSqlSafe, Connection, Database, Encode, Type};

use self::names::Names;
use self::update::Text;
use crate::error::Error;
use crate::event;
use crate::fence::Refusal;
use crate::owner_mark::OwnerMark;
use crate::permit::Permit;
use crate::sql::LeaseSql;
use crate::token::FencingToken;

pub use self::names::TableBuilder;
pub use self::update::{FencedUpdate, RowRule};

/// A table whose rows each carry the generation that wrote them last, so that one statement writes and compares:
/// `UPDATE … SET …, fence = ? WHERE id = ? AND fence <= ?`.
///
/// Where the [`Fence`](crate::Fence) keeps one guard row for a resource and protects any SQL beside its check, this protects
/// single rows, without a further statement and without a row that all writers share.
///
/// What holds: a row that a generation has written or [sealed](Self::seal) is not written by an older one. With an
/// [owner column](TableBuilder::owner_column) two owners of one number are told apart, as after the restore of a lock store.
///
/// What does not:
/// - A late write to a row that the new holder has neither written nor sealed is not refused. Seal the rows first that the work
///   will read or write; where those are not known from the start, use a [`Fence`](crate::Fence).
/// - Only the one statement is conditional. What else its transaction does is protected only if an [`Error::Refused`] rolls it back.
/// - A writer that does not compare is stopped by nothing, unless the table has the [trigger](Self::require_generation).
/// - Without an owner column, equal numbers are one owner.
/// - Under [`RowRule::Newest`] one permit writes any number of times: `balance = balance + 10` twice is 20. An operation that must
///   apply once needs its own identifier under a unique key in the same transaction; [`RowRule::Strict`] allows one write a generation.
///
/// The columns are the caller's: the generation `BIGINT NOT NULL DEFAULT 0`, the owner of 16 bytes (`bytea`, `BLOB`, `VARBINARY(16)`;
/// not the nonce, but a hash of it) or NULL, and for the trigger what was brought, `BIGINT` and NULL at rest.
///
/// ```
/// use std::time::Duration;
/// use leastlock_lease::{FencedTable, Hold, Leases, LockName, RowRule, SqlLeaseStore};
///
/// # #[cfg(feature = "sqlite")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
/// # leastlock_lease::MIGRATIONS.run(&pool).await?;
/// sqlx::raw_sql("CREATE TABLE report (tenant INTEGER PRIMARY KEY, body TEXT, fence BIGINT NOT NULL DEFAULT 0)")
///     .execute(&pool)
///     .await?;
/// # sqlx::raw_sql("INSERT INTO report (tenant) VALUES (7)").execute(&pool).await?;
/// # let leases = Leases::new(SqlLeaseStore::new(&pool));
/// let reports = FencedTable::<sqlx::Sqlite>::builder("report", "tenant").build()?;
/// let rewrite = reports.update(RowRule::Newest, "body = $1")?;            // `?` on MySQL and MariaDB
///
/// let lease = leases.acquire(&LockName::new("report:tenant-7")?, Hold::renewed(Duration::from_secs(30))).await?;
/// let permit = lease.permit()?;
/// let mut connection = pool.acquire().await?;
/// reports.seal(&mut *connection, &permit, 7).await?;                      // from here on, older holders are refused
/// rewrite.execute(&mut *connection, &permit, 7, |query| query.bind("done")).await?;
/// # drop(connection);
/// # let body: String = sqlx::query_scalar("SELECT body FROM report WHERE fence = 1").fetch_one(&pool).await?;
/// # assert_eq!(body, "done");
/// # Ok(())
/// # }
/// # #[cfg(not(feature = "sqlite"))]
/// # fn main() {}
/// ```
pub struct FencedTable<DB: LeaseSql> {
    names: Arc<Names>,
    seal: Text,
    read: Arc<str>,
    engine: PhantomData<fn() -> DB>,
}

impl<DB: LeaseSql> FencedTable<DB> {
    /// Registers the permit's generation in one row: the new holder's first act, before it reads what it will change. It waits for
    /// an open transaction that has written the row; when it is committed, no older holder writes the row any more. Doing it
    /// again with the same lease changes nothing.
    ///
    /// How long it waits for the row is the connection's to bound (`lock_timeout`, `innodb_lock_wait_timeout`).
    ///
    /// # Errors
    /// [`Error::Refused`] says why; [`Error::Write`], [`Error::Database`].
    ///
    /// # Cancel safety
    /// Dropped, the row may be sealed or not, unless it was in a transaction, which rolls back. Seal again.
    pub async fn seal<'k, C, K>(&self, connection: &mut C, permit: &Permit, key: K) -> Result<(), Error>
    where
        C: Connection<Database = DB>,
        DB: Database<Connection = C>,
        K: Encode<'k, DB> + Type<DB> + Clone + Send,
    {
        self.run(connection, &self.seal, RowRule::Newest, permit, key, |query| query).await
    }

    /// The generation that stands in a row; `None` if it has none above 0, or is not there. As a
    /// [floor](crate::Acquire::floor) it keeps a restored lock store from issuing a token that the row has seen.
    ///
    /// # Errors
    /// [`Error::Database`].
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    pub async fn generation<'k, C, K>(&self, connection: &mut C, key: K) -> Result<Option<FencingToken>, Error>
    where
        C: Connection<Database = DB>,
        DB: Database<Connection = C>,
        K: Encode<'k, DB> + Type<DB> + Send,
    {
        Ok(self.row(connection, key).await?.and_then(|row| row.generation))
    }

    /// One statement: writes the row if its fence lets the permit pass.
    async fn run<'k, C, K>(
        &self,
        connection: &mut C,
        text: &Text,
        rule: RowRule,
        permit: &Permit,
        key: K,
        bind: impl FnOnce(update::Bound<'k, DB>) -> update::Bound<'k, DB>,
    ) -> Result<(), Error>
    where
        C: Connection<Database = DB>,
        DB: Database<Connection = C>,
        K: Encode<'k, DB> + Type<DB> + Clone + Send,
    {
        if let Some(refusal) = permit.refusal_if_lost() {
            return Err(self.refused(permit, refusal));
        }
        let query = text.bound(permit, key.clone(), bind);
        if DB::run_query(connection, query).await.map_err(write_failed::<DB>("write a fenced row"))? > 0 {
            return Ok(());
        }
        let row = self.row(connection, key).await?;
        Err(self.refused(permit, refusal(rule, permit, row)))
    }

    async fn row<'k, C, K>(&self, connection: &mut C, key: K) -> Result<Option<Fenced>, Error>
    where
        C: Connection<Database = DB>,
        DB: Database<Connection = C>,
        K: Encode<'k, DB> + Type<DB> + Send,
    {
        let failed = failed::<DB>("read a row's fence");
        let query = sqlx::query::<DB>(AssertSqlSafe(Arc::clone(&self.read))).bind(key);
        let Some(row) = DB::fetch_query(connection, query).await.map_err(&failed)? else { return Ok(None) };
        Fenced::read(&row, self.names.owner.is_some()).map(Some).map_err(failed)
    }

    fn refused(&self, permit: &Permit, refusal: Refusal) -> Error {
        event::refused(permit, &self.names.table, refusal);
        Error::Refused { resource: (&*self.names.table).into(), generation: permit.token(), refusal }
    }
}

/// What stands in a row.
struct Fenced {
    generation: Option<FencingToken>,
    is_null: bool,
    owner: Option<Vec<u8>>,
}

impl Fenced {
    fn read<DB: LeaseSql>(row: &Row<DB>, has_owner: bool) -> Result<Self, sqlx::Error> {
        let generation = row.optional_int(0)?;
        let owner = if has_owner { row.optional_bytes(1)? } else { None };
        Ok(Self { generation: generation.and_then(FencingToken::new), is_null: generation.is_none(), owner })
    }
}

/// Why a row has refused a permit, by what stands there a moment later.
fn refusal(rule: RowRule, permit: &Permit, row: Option<Fenced>) -> Refusal {
    let Some(row) = row.filter(|row| !row.is_null) else { return Refusal::Absent };
    match row.generation {
        Some(by) if by > permit.token() => Refusal::Superseded { by },
        Some(same) if same == permit.token() => match row.owner.as_deref().and_then(OwnerMark::from_bytes) {
            Some(owner) if owner != permit.owner_mark() => Refusal::OtherOwner { owner: owner.hash() },
            _ if rule == RowRule::Strict => Refusal::Spent,
            // It was written since by this very generation, or the owner's column was lost.
            _ => Refusal::NotSealed,
        },
        _ if rule == RowRule::SameGeneration => Refusal::NotSealed,
        // It was made since.
        _ => Refusal::Absent,
    }
}

fn failed<DB: LeaseSql>(operation: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |source| Error::Database { operation, retryable: classify::<DB>(&source).is_retryable(), source }
}

/// Of a statement that is its own transaction, unless the caller has begun one.
fn write_failed<DB: LeaseSql>(operation: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |source| Error::Write { operation, retryable: classify::<DB>(&source).is_retryable(), source }
}

impl<DB: LeaseSql> Clone for FencedTable<DB> {
    fn clone(&self) -> Self {
        Self {
            names: Arc::clone(&self.names),
            seal: self.seal.clone(),
            read: Arc::clone(&self.read),
            engine: PhantomData,
        }
    }
}

impl<DB: LeaseSql> fmt::Debug for FencedTable<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedTable").field("names", &self.names).finish_non_exhaustive()
    }
}
