//! Databases of PostgreSQL that are as if they were new, and were another test's before.
//!
//! To make a database takes the server a third of a second, and to drop it a checkpoint, for which everybody waits. To drop what is in
//! one takes milliseconds. What is in no schema is looked for: with any of it, the database is made anew after all.

use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use leastlock_core::Statement;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, Postgres};

use super::drop_slots;
use super::prepared::{keep_until_the_runtime_ends, lend_by_postgres, pause};

/// Keeps other tests from a database, as long as it lives and as long as the runtime runs in which it was made: until then tasks of the
/// test may still be in the database, and its child processes.
#[derive(Debug)]
pub struct Lent {
    name: String,
    /// Whether it goes back as it is, for a test that takes it with its tables.
    with_tables: bool,
    _lock: Arc<Mutex<PgConnection>>,
}

impl Lent {
    /// The connection has the lock.
    pub(super) fn new(name: String, connection: PgConnection) -> Self {
        let lock = Arc::new(Mutex::new(connection));
        keep_until_the_runtime_ends(Arc::clone(&lock));
        Self { name, with_tables: true, _lock: lock }
    }

    /// Its name, if something is to be done about it once its test has ended.
    pub(super) fn to_be_left(&self) -> Option<&str> {
        (!self.with_tables).then_some(&self.name)
    }
}

/// A database as a new one is. The server goes on counting: numbers of its objects, and the names of its sessions.
pub(super) async fn as_new(of: &str) -> (String, Lent) {
    let (url, mut lent) = lend_by_postgres(of).await;
    lent.with_tables = false;
    let options = PgConnectOptions::from_str(&url).expect("the URL of a database");
    // The database may have been given other defaults.
    let writable = options.clone().options([("default_transaction_read_only", "off")]);
    let mut connection = writable.connect().await.expect("the database that was lent");
    drop_slots(&mut connection, &lent.name).await.expect("slots that nobody reads");
    for schema in strings(&mut connection, SCHEMAS).await {
        run(&mut connection, format!("DROP SCHEMA {schema} CASCADE")).await;
    }
    run(&mut connection, include_str!("lent/schema.sql").to_owned()).await;
    let remains = strings(&mut connection, include_str!("lent/left.sql")).await;
    if remains.is_empty() {
        run(&mut connection, "SELECT pg_stat_reset()".to_owned()).await;
        connection.close().await.expect("the connection closes");
    } else {
        connection.close().await.expect("the connection closes");
        let mut server = options.database("postgres").connect().await.expect("the PostgreSQL server answers");
        run(&mut server, format!("DROP DATABASE {} WITH (FORCE)", lent.name)).await;
        run(&mut server, format!("CREATE DATABASE {}", lent.name)).await;
        server.close().await.expect("the connection closes");
    }
    (url, lent)
}

const SCHEMAS: &str = "SELECT quote_ident(nspname) FROM pg_namespace \
    WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'";

/// Ends what an earlier test has left connected.
pub(super) async fn end_sessions(connection: &mut PgConnection, name: &str) {
    let begun = Instant::now();
    loop {
        let end = "SELECT pg_terminate_backend(pid)::int::bigint FROM pg_stat_activity WHERE datname = $1";
        let ended = Statement::new(end).bind(name).fetch_all::<Postgres>(connection).await;
        if ended.expect("an answer").is_empty() {
            return;
        }
        pause(begun).await;
    }
}

async fn strings(connection: &mut PgConnection, query: &'static str) -> Vec<String> {
    sqlx::query_scalar(query).fetch_all(connection).await.unwrap_or_else(|error| panic!("{query}: {error}"))
}

async fn run(connection: &mut PgConnection, statement: String) {
    let run = sqlx::raw_sql(AssertSqlSafe(statement.clone())).execute(connection).await;
    run.unwrap_or_else(|error| panic!("{statement}: {error}"));
}

#[cfg(test)]
mod tests {
    use sqlx::postgres::PgConnectOptions;
    use sqlx::{ConnectOptions, PgConnection, Row};

    use super::{Lent, as_new, run};

    /// What tests leave behind, or might.
    const LEFT: [&str; 12] = [
        "CREATE TABLE item (id BIGINT GENERATED ALWAYS AS IDENTITY); INSERT INTO item DEFAULT VALUES",
        "CREATE SCHEMA \"a schema\"; CREATE TABLE \"a schema\".item (id BIGINT)",
        "CREATE FUNCTION item() RETURNS bigint LANGUAGE sql AS 'SELECT 1'",
        "CREATE TYPE item AS ENUM ('one')",
        "GRANT CREATE ON SCHEMA public TO PUBLIC",
        "DROP SCHEMA public",
        "CREATE PUBLICATION item",
        "SELECT pg_create_logical_replication_slot(current_database()::text::name, 'pgoutput')",
        "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$",
        "DO $$ BEGIN EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM PUBLIC', current_database()); END $$",
        "CREATE FUNCTION pg_catalog.item() RETURNS bigint LANGUAGE sql AS 'SELECT 1'",
        "SELECT lo_create(0)",
    ];
    /// All that there is to see of a database.
    const SEEN: &str =
        "SELECT concat_ws(' ', 'schema', nspname, pg_get_userbyid(nspowner), nspacl::text) FROM pg_namespace
            WHERE nspname !~ '^pg_(temp|toast)'
        UNION ALL SELECT concat_ws(' ', 'table', relname) FROM pg_class WHERE relnamespace <> 'pg_toast'::regnamespace
        UNION ALL SELECT concat_ws(' ', 'function', proname, pronamespace::regnamespace) FROM pg_proc
        UNION ALL SELECT concat_ws(' ', 'type', typname, typnamespace::regnamespace) FROM pg_type WHERE typtype = 'e'
        UNION ALL SELECT concat_ws(' ', 'publication', pubname) FROM pg_publication
        UNION ALL SELECT concat_ws(' ', 'slot', slot_name) FROM pg_replication_slots WHERE database = current_database()
        UNION ALL SELECT concat_ws(' ', 'rights', datacl::text) FROM pg_database WHERE datname = current_database()
        UNION ALL SELECT concat_ws(' ', 'large object', oid) FROM pg_largeobject_metadata
        UNION ALL SELECT concat_ws(' ', 'read only', current_setting('default_transaction_read_only'))
        ORDER BY 1";

    /// What is seen of a database, before something is left behind in it. Each in a runtime of its own, as a test has.
    fn seen_before(left: &str) -> (String, Vec<String>) {
        tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
            let (url, kept): (String, Lent) = as_new("testkit_lent").await;
            let options: PgConnectOptions = url.parse().expect("a URL");
            let mut connection: PgConnection = options.connect().await.expect("a connection");
            let seen = sqlx::query(SEEN).fetch_all(&mut connection).await.expect("rows");
            run(&mut connection, left.to_owned()).await;
            drop(kept);
            (url, seen.iter().map(|row| row.get(0)).collect())
        })
    }

    #[test]
    fn a_database_that_was_another_tests_is_as_a_new_one() {
        let (_, new) = seen_before("SELECT 1");
        assert!(new.iter().any(|seen| seen.starts_with("schema public")), "{new:?}");
        for left in LEFT {
            // The server takes a moment to notice that a test has ended, and lends another one meanwhile.
            let is_of_the_same = |_| {
                let (left_in, _) = seen_before(left);
                let (url, seen) = seen_before("SELECT 1");
                assert_eq!(seen, new, "what was left before: {left}");
                url == left_in
            };
            assert!((0..100).any(is_of_the_same), "never the same one again: {left}");
        }
    }

    #[test]
    fn a_database_is_of_one_test_as_long_as_its_value_or_its_runtime_lives() {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let (url, lent) = runtime.block_on(as_new("testkit_kept"));
        let other = |runtime: &tokio::runtime::Runtime| runtime.block_on(as_new("testkit_kept")).0;
        let second = tokio::runtime::Runtime::new().expect("a runtime");
        assert_ne!(other(&second), url, "both live");
        drop(runtime);
        assert_ne!(other(&second), url, "its value lives");
        drop(lent);
        assert!((0..1_000).any(|_| other(&tokio::runtime::Runtime::new().expect("a runtime")) == url), "it is free");
    }
}
