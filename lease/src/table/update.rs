//! The update of one row, on condition of its fence.

use std::fmt;
use std::sync::Arc;

use leastlock_core::Engine;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Connection, Database, Encode, Type};

use super::FencedTable;
use super::names::Names;
use super::set::Assignments;
use crate::error::Error;
use crate::permit::Permit;
use crate::sql::{LeaseSql, Part};

/// A query to which its values are being bound.
pub(super) type Bound<'q, DB> = Query<'q, DB, <DB as Database>::Arguments>;

/// Which generations a row lets pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RowRule {
    /// `fence <= ?`: the row's own generation, any number of times, and every newer one, which is registered by its write.
    Newest,
    /// `fence < ?`: a newer generation than the row's only. So each writes the row once, and must not seal it before.
    Strict,
    /// `fence = ?`: the row's own generation only. A holder must have [sealed](FencedTable::seal) the row; rows that nobody has
    /// sealed for it are not written by mistake.
    SameGeneration,
}

/// A conditional update of one row of a [`FencedTable`]; made once, and used for every row.
///
/// Its text is `UPDATE table SET assignments, fence = ? WHERE key = ? AND fence <= ?`, with the owner where there is a column for it.
pub struct FencedUpdate<DB: LeaseSql> {
    table: FencedTable<DB>,
    text: Text,
    rule: RowRule,
}

impl<DB: LeaseSql> FencedTable<DB> {
    /// The update that makes these assignments: what stands between `SET` and `WHERE`, without the columns of the fence, and with
    /// placeholders for every value: `$1`, `$2`, … on PostgreSQL and SQLite, `?` on MySQL and MariaDB.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] {
    /// use leastlock_lease::{FencedTable, RowRule};
    ///
    /// let accounts = FencedTable::<sqlx::Sqlite>::builder("account", "id").owner_column("fence_owner").build()?;
    /// let deposit = accounts.update(RowRule::Newest, "balance = balance + $1")?;
    /// assert_eq!(
    ///     deposit.sql().lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>(),
    ///     [
    ///         "UPDATE account SET balance = balance + $1, fence = $2, fence_owner = $4",
    ///         "WHERE id = $3 AND (fence < $2 OR (fence = $2 AND fence_owner = $4))",
    ///     ]
    /// );
    /// assert!(accounts.update(RowRule::Newest, "balance = 0 WHERE id = id").is_err());
    /// # }
    /// # Ok::<(), leastlock_lease::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Table`] if that is not what they are: quotes and comments are not allowed, nor a `WHERE` of their own.
    pub fn update(&self, rule: RowRule, assignments: &'static str) -> Result<FencedUpdate<DB>, Error> {
        let set = Assignments::parse(assignments, DB::ENGINE, &self.names)?;
        let text = Text::new::<DB>(&self.names, rule, Some(&set));
        Ok(FencedUpdate { table: self.clone(), text, rule })
    }
}

impl<DB: LeaseSql> FencedUpdate<DB> {
    /// Writes the row of this key if its fence lets the permit pass. `bind` binds the values of the assignments, in order. The
    /// statement stands for itself, or in a transaction of the caller's.
    ///
    /// # Errors
    /// [`Error::Refused`] says why; the row is as it was, and if a transaction has done more, roll it back. [`Error::Write`]: outside of
    /// a transaction it may have been written, if the connection was lost. [`Error::Database`].
    ///
    /// # Cancel safety
    /// Dropped, the row may be written or not, unless it was in a transaction, which rolls back.
    pub async fn execute<'k, C, K>(
        &self,
        connection: &mut C,
        permit: &Permit,
        key: K,
        bind: impl FnOnce(Query<'k, DB, DB::Arguments>) -> Query<'k, DB, DB::Arguments>,
    ) -> Result<(), Error>
    where
        C: Connection<Database = DB>,
        DB: Database<Connection = C>,
        K: Encode<'k, DB> + Type<DB> + Clone + Send,
    {
        self.table.run(connection, &self.text, self.rule, permit, key, bind).await
    }

    /// The text, as it is sent.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.text.sql
    }
}

impl<DB: LeaseSql> Clone for FencedUpdate<DB> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), text: self.text.clone(), rule: self.rule }
    }
}

impl<DB: LeaseSql> fmt::Debug for FencedUpdate<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedUpdate").field("sql", &self.text.sql).field("rule", &self.rule).finish_non_exhaustive()
    }
}

/// What a placeholder of the library's own stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Generation,
    Key,
    Owner,
}

/// A statement, and what is bound to it before and after the caller's values.
#[derive(Debug, Clone)]
pub(super) struct Text {
    sql: Arc<str>,
    /// MySQL counts its placeholders by their place in the text, so some come before the caller's; none elsewhere.
    after: Arc<[Slot]>,
}

impl Text {
    pub(super) fn new<DB: LeaseSql>(names: &Names, rule: RowRule, set: Option<&Assignments>) -> Self {
        let mut slots = Slots { engine: DB::ENGINE, values: set.map_or(0, Assignments::values), after: Vec::new() };
        let mut assignments: Vec<String> = set.iter().map(|set| set.text().to_owned()).collect();
        assignments.push(format!("{} = {}", names.generation, slots.place(Slot::Generation)));
        if let Some(owner) = &names.owner {
            assignments.push(format!("{owner} = {}", slots.place(Slot::Owner)));
        }
        if let Some(brought) = &names.brought {
            assignments.push(format!("{brought} = {}", slots.place(Slot::Generation)));
        }
        let key_value = slots.place(Slot::Key);
        let guard = slots.guard(names, rule);
        let sql = names.fill(DB::ROW_UPDATE).replace("{key_value}", &key_value).replace("{guard}", &guard);
        Self { sql: sql.replace("{set}", &assignments.join(", ")).into(), after: slots.bound().into() }
    }

    /// The query with everything bound.
    pub(super) fn bound<'k, DB: LeaseSql, K: Encode<'k, DB> + Type<DB> + Clone>(
        &self,
        permit: &Permit,
        key: K,
        bind: impl FnOnce(Bound<'k, DB>) -> Bound<'k, DB>,
    ) -> Bound<'k, DB> {
        let query = bind(sqlx::query::<DB>(AssertSqlSafe(Arc::clone(&self.sql))));
        self.after.iter().fold(query, |query, slot| match slot {
            Slot::Generation => DB::bind_part(query, Part::Generation(permit.token().value())),
            Slot::Owner => DB::bind_part(query, Part::Owner(*permit.owner_mark().as_bytes())),
            Slot::Key => query.bind(key.clone()),
        })
    }
}

/// Numbers placeholders after the caller's.
struct Slots {
    engine: Engine,
    /// How many are the caller's.
    values: usize,
    /// By their place in the text, on MySQL.
    after: Vec<Slot>,
}

impl Slots {
    fn place(&mut self, slot: Slot) -> String {
        self.after.push(slot);
        let number = match slot {
            _ if self.engine == Engine::MySql => return "?".to_owned(),
            Slot::Generation => 1,
            Slot::Key => 2,
            Slot::Owner => 3,
        };
        format!("${}", self.values + number)
    }

    fn guard(&mut self, names: &Names, rule: RowRule) -> String {
        let generation = &names.generation;
        match (rule, &names.owner) {
            (RowRule::Newest, None) => format!("{generation} <= {}", self.place(Slot::Generation)),
            (RowRule::Strict, _) => format!("{generation} < {}", self.place(Slot::Generation)),
            (RowRule::SameGeneration, None) => format!("{generation} = {}", self.place(Slot::Generation)),
            (RowRule::SameGeneration, Some(owner)) => {
                let own = self.place(Slot::Generation);
                format!("{generation} = {own} AND {owner} = {}", self.place(Slot::Owner))
            }
            (RowRule::Newest, Some(owner)) => {
                let (newer, own) = (self.place(Slot::Generation), self.place(Slot::Generation));
                let same = self.place(Slot::Owner);
                format!("({generation} < {newer} OR ({generation} = {own} AND {owner} = {same}))")
            }
        }
    }

    /// In the order in which they are bound: by number, each once, or by place.
    fn bound(self) -> Vec<Slot> {
        if self.engine == Engine::MySql {
            return self.after;
        }
        let numbered = [Slot::Generation, Slot::Key, Slot::Owner];
        numbered.into_iter().filter(|slot| self.after.contains(slot)).collect()
    }
}
