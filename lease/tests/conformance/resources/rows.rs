use leastlock_core::{Engine, Statement};
use leastlock_lease::{Error, FencedTable, FencedUpdate, LeaseSql, Permit, RowRule};
use leastlock_testkit::TestEngine;
use leastlock_testkit::database::sql;
use sqlx::{Connection, Database, Encode, Pool, Transaction, Type};

use super::{Guard, Resource, refused_by_a_double};
use crate::rig::{Rig, Sql};

pub(crate) const KEY: i64 = 7;

/// An engine whose integers can be bound by who names them.
pub(crate) trait Rowed: TestEngine + LeaseSql {
    async fn seal(pool: &Pool<Self>, table: &FencedTable<Self>, permit: &Permit) -> Result<(), Error>;
    async fn set(pool: &Pool<Self>, update: &FencedUpdate<Self>, permit: &Permit, value: i64) -> Result<(), Error>;
    /// An update without values, in a transaction.
    async fn add_in(tx: &mut Transaction<'_, Self>, update: &FencedUpdate<Self>, permit: &Permit) -> Result<(), Error>;
}

impl<DB> Rowed for DB
where
    DB: TestEngine + LeaseSql,
    i64: for<'q> Encode<'q, DB> + Type<DB>,
    DB: Database<Connection: Connection<Database = DB>>,
{
    async fn seal(pool: &Pool<Self>, table: &FencedTable<Self>, permit: &Permit) -> Result<(), Error> {
        table.seal(&mut *pool.acquire().await.unwrap(), permit, KEY).await
    }

    async fn set(pool: &Pool<Self>, update: &FencedUpdate<Self>, permit: &Permit, value: i64) -> Result<(), Error> {
        update.execute(&mut *pool.acquire().await.unwrap(), permit, KEY, |query| query.bind(value)).await
    }

    async fn add_in(tx: &mut Transaction<'_, Self>, update: &FencedUpdate<Self>, permit: &Permit) -> Result<(), Error> {
        update.execute(&mut **tx, permit, KEY, |query| query).await
    }
}

/// A row with a fence of its own, and a column for the owner.
pub(crate) struct Rows<DB: Rowed> {
    pub(crate) pool: Pool<DB>,
    pub(crate) table: FencedTable<DB>,
    set: FencedUpdate<DB>,
    add: FencedUpdate<DB>,
    by_number: FencedUpdate<DB>,
}

/// `fenced` with one row, in which nothing was ever written.
pub(crate) async fn create_table<DB: TestEngine>(pool: &Pool<DB>) {
    let create = match DB::ENGINE {
        Engine::Postgres => {
            "CREATE TABLE fenced (id bigint PRIMARY KEY, value bigint NOT NULL, fence bigint NOT NULL DEFAULT 0, \
             fence_owner bytea, fence_brought bigint)"
        }
        Engine::MySql => {
            "CREATE TABLE fenced (id BIGINT PRIMARY KEY, value BIGINT NOT NULL, fence BIGINT NOT NULL DEFAULT 0, \
             fence_owner VARBINARY(16), fence_brought BIGINT)"
        }
        _ => {
            "CREATE TABLE fenced (id INTEGER PRIMARY KEY, value INTEGER NOT NULL, fence INTEGER NOT NULL DEFAULT 0, \
             fence_owner BLOB, fence_brought INTEGER)"
        }
    };
    // On one connection: another one of SQLite's may not have heard of the DROP when it reads the CREATE.
    let mut connection = pool.acquire().await.unwrap();
    for statement in ["DROP TABLE IF EXISTS fenced", create, "INSERT INTO fenced (id, value) VALUES (7, 0), (8, 0)"] {
        DB::run_query(&mut connection, sqlx::query(statement)).await.unwrap();
    }
}

pub(crate) async fn execute<DB: TestEngine>(pool: &Pool<DB>, statement: &'static str) -> Result<u64, sqlx::Error> {
    DB::run_query(&mut *pool.acquire().await.unwrap(), sqlx::query(statement)).await
}

pub(crate) async fn int<DB: TestEngine>(pool: &Pool<DB>, query: &'static str) -> i64 {
    let mut connection = pool.acquire().await.unwrap();
    Statement::new(query).fetch_one::<DB>(&mut connection).await.unwrap().int(0).unwrap()
}

pub(crate) const fn placeholder<DB: TestEngine>(standard: &'static str, mysql: &'static str) -> &'static str {
    match DB::ENGINE {
        Engine::MySql => mysql,
        _ => standard,
    }
}

pub(crate) fn owned<DB: Rowed>() -> FencedTable<DB> {
    FencedTable::builder("fenced", "id").owner_column("fence_owner").build().unwrap()
}

impl<DB: Rowed> Resource<Sql<DB>> for Rows<DB> {
    async fn create(rig: &Sql<DB>) -> Self {
        let pool = rig.database().pool.clone();
        create_table(&pool).await;
        let table = owned::<DB>();
        let by_number = FencedTable::builder("fenced", "id").build().unwrap();
        let set = placeholder::<DB>("value = $1", "value = ?");
        Self {
            pool,
            set: table.update(RowRule::SameGeneration, set).unwrap(),
            add: table.update(RowRule::Newest, placeholder::<DB>("value = value + $1", "value = value + ?")).unwrap(),
            by_number: by_number.update(RowRule::Newest, set).unwrap(),
            table,
        }
    }

    async fn seal(&self, permit: &Permit) -> Result<(), Error> {
        DB::seal(&self.pool, &self.table, permit).await
    }

    async fn write(&self, guard: Guard, permit: &Permit, value: i64) -> Result<(), Error> {
        match guard {
            Guard::Right => DB::set(&self.pool, &self.set, permit, value).await,
            Guard::NumberOnly => match DB::set(&self.pool, &self.by_number, permit, value).await {
                Err(Error::Refused { .. }) => Err(refused_by_a_double()),
                other => other,
            },
            Guard::Absent => {
                let update = sql::<DB>("UPDATE fenced SET value = $1", "UPDATE fenced SET value = ?");
                let mut connection = self.pool.acquire().await.unwrap();
                Statement::new(update).bind(value).execute::<DB>(&mut connection).await.unwrap();
                Ok(())
            }
        }
    }

    async fn add(&self, permit: &Permit, amount: i64) -> Result<(), Error> {
        DB::set(&self.pool, &self.add, permit, amount).await
    }

    async fn value(&self) -> i64 {
        int(&self.pool, "SELECT value FROM fenced WHERE id = 7").await
    }

    async fn break_down(&self) {
        execute(&self.pool, "DROP TABLE fenced").await.unwrap();
    }
}
