//! Databases with the tables of a suite in them, which its tests use one after the other.
//!
//! To make a database with its tables and to end it takes a server longer than most tests take otherwise. Here a test gets one that
//! an earlier test is done with, of this run or of another one, with the rows of a fresh one. Whatever was changed but rows makes it be
//! built anew.

use std::future::pending;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;
use std::time::{Duration, Instant};

use leastlock_core::{Engine, Migrations, Statement};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, MySql, MySqlConnection, PgConnection, Postgres};

use super::lent::{Lent, end_sessions};
use super::{POSTGRES_URL, TestDatabase, TestEngine, mysql_server, sql};

/// How long the sessions of an earlier test get to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a suite's databases have in them.
#[derive(Debug, Clone, Copy)]
pub struct Prepared {
    /// A name of its own, of letters and `_`.
    pub suite: &'static str,
    /// The tables of a crate.
    pub migrations: &'static Migrations,
    /// Statements that make the suite's own tables.
    pub tables: &'static [&'static str],
    /// Statements that fill them.
    pub rows: &'static [&'static str],
}

impl<DB: TestEngine> TestDatabase<DB> {
    /// A database that is as if it were fresh, with these tables and rows, and that no other test uses meanwhile.
    ///
    /// What a server counts for itself goes on: numbers that it gives to rows, and the names of its sessions.
    pub async fn prepared(plan: &Prepared) -> Self {
        let (url, handle) = DB::lend(plan.suite).await;
        let mut database = Self { pool: DB::connect(&url).await, url, handle };
        if database.is_as(plan).await {
            database.empty().await;
        } else {
            database.build(plan).await;
        }
        for statement in plan.rows {
            database.execute(statement).await;
        }
        database
    }

    async fn is_as(&self, plan: &Prepared) -> bool {
        let mut connection = self.pool.acquire().await.expect("a connection");
        let noted = Statement::new("SELECT noted FROM leastlock_prepared").fetch_optional::<DB>(&mut connection).await;
        drop(connection);
        // Without that table it is new.
        let Ok(Some(noted)) = noted else { return false };
        noted.text(0).is_ok_and(|noted| noted == plan_text(plan)) && self.shape_is_as_noted().await
    }

    async fn shape_is_as_noted(&self) -> bool {
        let noted = self.texts("SELECT shape FROM leastlock_prepared").await;
        noted == [self.shape().await]
    }

    /// The columns, indexes, triggers and routines.
    async fn shape(&self) -> String {
        digest(&self.texts(sql::<DB>(SHAPE_OF_POSTGRES, SHAPE_OF_MYSQL)).await)
    }

    async fn texts(&self, query: &'static str) -> Vec<String> {
        let mut connection = self.pool.acquire().await.expect("a connection");
        let rows = Statement::new(query).fetch_all::<DB>(&mut connection).await;
        let rows = rows.unwrap_or_else(|error| panic!("{query}: {error}"));
        rows.iter().map(|row| row.text(0).unwrap_or_else(|error| panic!("{query}: {error}"))).collect()
    }

    async fn run(&self, statement: String) {
        let mut connection = self.pool.acquire().await.expect("a connection");
        let run = Statement::new(AssertSqlSafe(statement.clone())).execute::<DB>(&mut connection).await;
        run.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }

    /// What is in the tables goes.
    async fn empty(&self) {
        let tables = self.texts(sql::<DB>(TABLES_OF_POSTGRES, TABLES_OF_MYSQL)).await;
        for table in tables.iter().filter(|table| !table.ends_with("_migrations") && *table != "leastlock_prepared") {
            self.run(format!("DELETE FROM {table}")).await;
        }
    }

    async fn build(&mut self, plan: &Prepared) {
        match DB::ENGINE {
            Engine::Postgres => {
                for schema in self.texts(SCHEMAS).await {
                    self.run(format!("DROP SCHEMA {schema} CASCADE")).await;
                }
                self.run("CREATE SCHEMA public".to_owned()).await;
            }
            Engine::MySql => {
                for name in self.texts("SELECT DATABASE()").await {
                    // On one connection: a new one could not be opened in between.
                    let mut connection = self.pool.acquire().await.expect("a connection");
                    for statement in ["DROP", "CREATE"].map(|verb| format!("{verb} DATABASE {name}")) {
                        let run = Statement::new(AssertSqlSafe(statement.clone())).execute::<DB>(&mut connection).await;
                        run.unwrap_or_else(|error| panic!("{statement}: {error}"));
                    }
                }
                // The connections that there were are in none any more.
                self.pool.close().await;
                self.pool = DB::connect(&self.url).await;
            }
            // A new file.
            _ => {}
        }
        plan.migrations.run(&self.pool).await.expect("the migrations apply");
        for statement in plan.tables {
            self.execute(statement).await;
        }
        if DB::ENGINE != Engine::Sqlite {
            self.execute("CREATE TABLE leastlock_prepared (noted VARCHAR(64) NOT NULL, shape VARCHAR(64) NOT NULL)")
                .await;
            let (noted, shape) = (plan_text(plan), self.shape().await);
            self.run(format!("INSERT INTO leastlock_prepared VALUES ('{noted}', '{shape}')")).await;
        }
    }
}

const SCHEMAS: &str =
    "SELECT nspname::text FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'";
const TABLES_OF_POSTGRES: &str = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'";
const TABLES_OF_MYSQL: &str =
    "SELECT CAST(table_name AS CHAR) FROM information_schema.tables WHERE table_schema = DATABASE()";
const SHAPE_OF_POSTGRES: &str = "SELECT concat_ws(' ', nspname, relname, relkind, attname, atttypid, attnotnull, relchecks, \
         (SELECT count(*) FROM pg_constraint WHERE conrelid = pg_class.oid)) AS shape \
     FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace \
         JOIN pg_attribute ON attrelid = pg_class.oid AND NOT attisdropped \
     WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' \
     UNION ALL SELECT concat_ws(' ', 'trigger', tgname, tgenabled) FROM pg_trigger WHERE NOT tgisinternal \
     UNION ALL SELECT concat_ws(' ', 'function', proname) FROM pg_proc \
         JOIN pg_namespace ON pg_namespace.oid = pronamespace \
         WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' \
     UNION ALL SELECT concat_ws(' ', 'schema', nspname) FROM pg_namespace WHERE nspname !~ '^pg_' \
     ORDER BY 1";
const SHAPE_OF_MYSQL: &str = "SELECT CAST(CONCAT_WS(' ', table_name, column_name, column_type, is_nullable, column_key) AS CHAR) \
         FROM information_schema.columns WHERE table_schema = DATABASE() \
     UNION ALL SELECT CAST(CONCAT_WS(' ', 'trigger', trigger_name) AS CHAR) \
         FROM information_schema.triggers WHERE trigger_schema = DATABASE() \
     UNION ALL SELECT CAST(CONCAT_WS(' ', 'routine', routine_name) AS CHAR) \
         FROM information_schema.routines WHERE routine_schema = DATABASE() \
     ORDER BY 1";

/// Another one if any statement is another one.
fn plan_text(plan: &Prepared) -> String {
    let Prepared { suite, migrations, tables, .. } = plan;
    digest(&(suite, format!("{migrations:?}"), tables))
}

fn digest(value: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Keeps a connection, and the lock that it has, until the runtime of the test ends: until then its tasks may still be in the database.
pub(super) fn keep_until_the_runtime_ends<C: Send + 'static>(connection: C) {
    tokio::spawn(async move {
        let _kept = connection;
        pending::<()>().await;
    });
}

/// Answers its URL, and what keeps others from it.
pub(super) async fn lend_by_postgres(suite: &str) -> (String, Lent) {
    let server = std::env::var(POSTGRES_URL)
        .unwrap_or_else(|_| panic!("{POSTGRES_URL} is not set: eval \"$(scripts/services env)\""));
    let options = PgConnectOptions::from_str(&server).expect("a PostgreSQL URL");
    let mut connection = options.connect().await.expect("the PostgreSQL server answers");
    let name = lock::<Postgres>(suite, &mut connection, async |connection: &mut PgConnection, name: &str| {
        let lock = "SELECT pg_try_advisory_lock(hashtext($1)::bigint)::int::bigint";
        Statement::new(lock).bind(name).fetch_one::<Postgres>(connection).await
    })
    .await;
    let there = Statement::new("SELECT 1::bigint FROM pg_database WHERE datname = $1").bind(&*name);
    if there.fetch_optional::<Postgres>(&mut connection).await.expect("an answer").is_none() {
        let create = Statement::new(AssertSqlSafe(format!("CREATE DATABASE {name}")));
        create.execute::<Postgres>(&mut connection).await.expect("a new database");
    }
    end_sessions(&mut connection, &name).await;
    let url = options.database(&name).to_url_lossy().to_string();
    (url, Lent::new(name, connection))
}

pub(super) async fn lend_by_mysql(suite: &str) -> String {
    let options: MySqlConnectOptions = mysql_server();
    let mut connection = options.connect().await.expect("the MariaDB server answers");
    let name = lock::<MySql>(suite, &mut connection, async |connection: &mut MySqlConnection, name: &str| {
        Statement::new("SELECT CAST(GET_LOCK(?, 0) AS SIGNED)").bind(name).fetch_one::<MySql>(connection).await
    })
    .await;
    let create = Statement::new(AssertSqlSafe(format!("CREATE DATABASE IF NOT EXISTS {name}")));
    create.execute::<MySql>(&mut connection).await.expect("a database");
    let begun = Instant::now();
    loop {
        let open = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE db = ?";
        let open = Statement::new(open).bind(&*name).fetch_all::<MySql>(&mut connection).await.expect("an answer");
        if open.is_empty() {
            break;
        }
        for session in &open {
            let kill = format!("KILL CONNECTION {}", session.int(0).expect("its number"));
            // One that has ended by itself meanwhile is an error.
            let _gone = Statement::new(AssertSqlSafe(kill)).execute::<MySql>(&mut connection).await;
        }
        pause(begun).await;
    }
    keep_until_the_runtime_ends(connection);
    options.database(&name).to_url_lossy().to_string()
}

/// Between two looks for the sessions of an earlier test.
pub(super) async fn pause(begun: Instant) {
    assert!(begun.elapsed() < PATIENCE, "the sessions of an earlier test do not end");
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// The first of the suite's databases that nobody uses.
async fn lock<DB: TestEngine>(
    suite: &str,
    connection: &mut DB::Connection,
    attempt: impl AsyncFn(&mut DB::Connection, &str) -> Result<leastlock_core::Row<DB>, sqlx::Error>,
) -> String {
    for number in 0_u32.. {
        let name = format!("leastlock_{suite}_{number}");
        let locked = attempt(connection, &name).await.expect("an answer");
        if locked.int(0).expect("a number") == 1 {
            return name;
        }
    }
    unreachable!("nobody uses so many")
}
