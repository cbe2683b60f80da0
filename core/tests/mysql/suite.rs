//! The promises, each in a database of its own.

use leastlock_core::{
    Dialect, Engine, ErrorClass, Migration, MigrationError, Migrations, Statement, begin_with, classify, commit,
};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::MySql;
use sqlx::{Connection, MySqlConnection, Transaction};

type Database = TestDatabase<MySql>;

const DOUBLE: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION";
const VALUE: &str = "SELECT units FROM stock WHERE code = 'a'";
const SUM: &str = "SELECT CAST(sum(units) AS SIGNED) FROM stock";
const SET_A: &str = "UPDATE stock SET units = units + 1 WHERE code = 'a'";
const SET_B: &str = "UPDATE stock SET units = units + 1 WHERE code = 'b'";
const SET_C: &str = "UPDATE stock SET units = units + 1 WHERE code = 'c'";

async fn stock(database: &Database) {
    database.execute("CREATE TABLE stock (code VARBINARY(20) PRIMARY KEY, units BIGINT NOT NULL)").await;
    database.execute("INSERT INTO stock VALUES ('a', 0), ('b', 0), ('c', 0)").await;
}

async fn run(connection: &mut MySqlConnection, sql: &'static str) -> Result<u64, sqlx::Error> {
    Statement::new(sql).execute::<MySql>(connection).await
}

async fn int(connection: &mut MySqlConnection, sql: &'static str) -> i64 {
    let row = Statement::new(sql).fetch_one::<MySql>(connection).await.expect("a row");
    row.int(0).expect("an integer")
}

pub(crate) async fn own_transactions_read_committed_whatever_the_default(database: Database) {
    stock(&database).await;
    for (begin, seen) in [(MySql::BEGIN_WRITE, 1), ("START TRANSACTION", 1)] {
        let mut tx = database.pool.begin_with(begin).await.expect("a transaction");
        let before = int(&mut tx, VALUE).await;
        database.execute(SET_A).await;
        let changed = int(&mut tx, VALUE).await - before;
        let is_double = begin != MySql::BEGIN_WRITE;
        assert_eq!(changed == seen, !is_double, "{begin}: saw {changed}");
    }
    // The connection's own level is as it was.
    let mut connection = database.pool.acquire().await.expect("a connection").detach();
    connection.begin_with(MySql::BEGIN_WRITE).await.expect("a transaction").rollback().await.expect("its end");
    let level = Statement::new("SELECT @@transaction_isolation").fetch_one::<MySql>(&mut connection).await;
    let level = match level {
        Ok(row) => row.text(0),
        Err(_) => {
            Statement::new("SELECT @@tx_isolation").fetch_one::<MySql>(&mut connection).await.expect("a row").text(0)
        }
    };
    assert_eq!(level.expect("a level"), "REPEATABLE-READ");
}

pub(crate) async fn a_begin_that_was_dropped_does_not_spoil_the_connection(database: Database) {
    stock(&database).await;
    for (begin, is_double) in [(MySql::BEGIN_WRITE, false), (DOUBLE, true)] {
        let mut connection = database.pool.acquire().await.expect("a connection").detach();
        // What sqlx leaves of a `begin` whose future was dropped before the answer came.
        sqlx::raw_sql("START TRANSACTION")
            .execute(&mut connection)
            .await
            .expect("a transaction that sqlx knows not of");
        let begun = connection.begin_with(begin).await;
        assert_eq!(begun.is_err(), is_double, "{begin}");
        if let Ok(mut tx) = begun {
            run(&mut tx, SET_A).await.expect("a write");
            tx.commit().await.expect("the commit");
        }
    }
    assert_eq!(database.int(VALUE).await, 1);
}

pub(crate) async fn a_poisoned_transaction_writes_nothing_more(database: Database) {
    stock(&database).await;
    let mut connection = database.pool.acquire().await.expect("a connection");
    for ending in ["commit", "rollback", "drop"] {
        let mut tx = connection.begin_with(MySql::BEGIN_WRITE).await.expect("a transaction");
        run(&mut tx, SET_A).await.expect("a write");
        MySql::poison(&mut tx).await.expect("poison");
        run(&mut tx, SET_B).await.expect_err("a write after the poison");
        MySql::poison(&mut tx).await.expect("poison, once more");
        match ending {
            "commit" => drop(tx.commit().await),
            "rollback" => tx.rollback().await.expect("the rollback"),
            _ => drop(tx),
        }
        assert_eq!(database.int(SUM).await, 0, "{ending}");
    }
    run(&mut connection, SET_A).await.expect("the connection writes again");
    assert_eq!(database.int(SUM).await, 1);
}

/// Two transactions in a deadlock; answers the one that was chosen to fail.
async fn victim_of_a_deadlock<'c>(database: &Database, through_the_dialect: bool) -> Transaction<'c, MySql> {
    let mut first = database.pool.begin_with(MySql::BEGIN_WRITE).await.expect("a transaction");
    let mut second = database.pool.begin_with(MySql::BEGIN_WRITE).await.expect("a transaction");
    run(&mut first, SET_A).await.expect("a write");
    run(&mut second, SET_B).await.expect("a write");
    let cross = async |tx: &mut Transaction<'c, MySql>, sql| {
        if through_the_dialect {
            run(tx, sql).await.map(|_| ())
        } else {
            sqlx::query(sql).execute(&mut **tx).await.map(|_| ())
        }
    };
    let (of_first, of_second) = tokio::join!(cross(&mut first, SET_B), cross(&mut second, SET_A));
    let (error, victim, winner) = match (of_first, of_second) {
        (Err(error), Ok(())) => (error, first, second),
        (Ok(()), Err(error)) => (error, second, first),
        other => panic!("no deadlock, or two: {other:?}"),
    };
    assert_eq!(classify::<MySql>(&error), ErrorClass::Deadlock);
    winner.rollback().await.expect("the rollback");
    victim
}

pub(crate) async fn what_follows_a_deadlock_is_not_committed_by_itself(database: Database) {
    stock(&database).await;
    let mut victim = victim_of_a_deadlock(&database, true).await;
    run(&mut victim, SET_C).await.expect_err("a write in a transaction that is gone");
    drop(victim.commit().await);
    assert_eq!(database.int(SUM).await, 0);

    // The double: sqlx alone, which goes on counting the transaction as open.
    let mut victim = victim_of_a_deadlock(&database, false).await;
    run(&mut victim, SET_C).await.expect("the server runs it without a transaction");
    victim.rollback().await.expect("the rollback");
    assert_eq!(database.int(SUM).await, 1, "the double is not caught");
}

pub(crate) async fn a_commit_of_what_has_ended_is_no_success(database: Database) {
    stock(&database).await;
    for through_the_dialect in [true, false] {
        let victim = victim_of_a_deadlock(&database, through_the_dialect).await;
        commit(victim).await.expect_err("its transaction is gone");
        let double = victim_of_a_deadlock(&database, through_the_dialect).await;
        double.commit().await.expect("the double is not caught");
    }
    for (begin, is_own) in [(MySql::BEGIN_WRITE, true), ("START TRANSACTION", false)] {
        for ending in ["poison", "ROLLBACK", "CREATE TABLE other (id BIGINT)"] {
            let mut tx = if is_own {
                leastlock_core::begin(&database.pool).await
            } else {
                begin_with(&database.pool, begin).await
            }
            .expect("a transaction");
            let mut savepoint = tx.begin().await.expect("a savepoint");
            run(&mut savepoint, SET_A).await.expect("a write");
            savepoint.rollback().await.expect("a savepoint rolled back takes no mark along");
            match ending {
                "poison" => MySql::poison(&mut tx).await.expect("poison"),
                ending => drop(sqlx::raw_sql(ending).execute(&mut *tx).await),
            }
            commit(tx).await.expect_err(ending);
        }
        let mut tx = begin_with(&database.pool, begin).await.expect("a transaction");
        run(&mut tx, SET_A).await.expect("a write");
        commit(tx).await.expect("the commit");
    }
    assert_eq!(database.int(SUM).await, 2);
}

pub(crate) async fn what_follows_a_changed_snapshot_is_not_committed_by_itself(database: Database) {
    stock(&database).await;
    let begin =
        "SET innodb_snapshot_isolation = ON; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION";
    let mut tx = database.pool.begin_with(begin).await.expect("a transaction");
    run(&mut tx, SET_B).await.expect("a write");
    int(&mut tx, VALUE).await;
    database.execute(SET_A).await;
    let error = run(&mut tx, SET_A).await.expect_err("a write over an old snapshot");
    assert_eq!(classify::<MySql>(&error), ErrorClass::SerializationFailure);
    run(&mut tx, SET_C).await.expect_err("a write in a transaction that is gone");
    drop(tx.commit().await);
    assert_eq!(database.int(SUM).await, 1, "the rival's write alone");
}

pub(crate) async fn errors_of_the_server_have_their_class(database: Database) {
    stock(&database).await;
    let mut connection = database.pool.acquire().await.expect("a connection").detach();
    let class =
        async |connection: &mut MySqlConnection, sql| classify::<MySql>(&run(connection, sql).await.expect_err(sql));
    assert_eq!(class(&mut connection, "INSERT INTO stock VALUES ('a', 1)").await, ErrorClass::UniqueViolation);
    assert_eq!(class(&mut connection, "SELECT * FROM nowhere").await, ErrorClass::Other);
    let slow = "SET STATEMENT max_statement_time = 0.01 FOR SELECT SLEEP(5)";
    assert_eq!(class(&mut connection, slow).await, ErrorClass::StatementTimeout);

    let mut rival = database.pool.begin_with(MySql::BEGIN_WRITE).await.expect("a transaction");
    run(&mut rival, SET_A).await.expect("a write");
    run(&mut connection, "SET innodb_lock_wait_timeout = 0").await.expect("a setting");
    assert_eq!(class(&mut connection, SET_A).await, ErrorClass::LockTimeout);
    drop(rival);

    let mut other = database.pool.acquire().await.expect("a connection");
    let id = int(&mut connection, "SELECT CAST(CONNECTION_ID() AS SIGNED)").await;
    let kill = sqlx::AssertSqlSafe(format!("KILL CONNECTION {id}"));
    sqlx::raw_sql(kill).execute(&mut *other).await.expect("a kill");
    assert_eq!(class(&mut connection, VALUE).await, ErrorClass::ConnectionLost);

    let mut idle = database.pool.acquire().await.expect("a connection").detach();
    run(&mut idle, "SET idle_transaction_timeout = 1").await.expect("a setting");
    let id = int(&mut idle, "SELECT CAST(CONNECTION_ID() AS SIGNED)").await;
    let mut tx = idle.begin_with(MySql::BEGIN_WRITE).await.expect("a transaction");
    run(&mut tx, SET_A).await.expect("a write");
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    let alive = Statement::new("SELECT count(*) FROM information_schema.processlist WHERE id = ?").bind(id);
    while alive.clone().fetch_one::<MySql>(&mut other).await.and_then(|row| row.int(0)).expect("a count") > 0 {
        assert!(tokio::time::Instant::now() < deadline, "the idle transaction was never ended");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(class(&mut tx, SET_A).await, ErrorClass::ConnectionLost);
    assert_eq!(database.int(SUM).await, 0);
}

pub(crate) async fn text_is_read_from_columns_of_bytes(database: Database) {
    database.execute("CREATE TABLE words (id BIGINT PRIMARY KEY, word VARBINARY(20), text VARCHAR(20))").await;
    let mut connection = database.pool.acquire().await.expect("a connection");
    let insert = Statement::new("INSERT INTO words VALUES (?, ?, ?)").bind(1).bind("Größe ").bind("Größe");
    insert.execute::<MySql>(&mut connection).await.expect("a row");
    let bytes: &[u8] = &[0xff, 0xfe];
    let insert = Statement::new("INSERT INTO words VALUES (?, ?, ?)").bind(2).bind(bytes).bind(None::<&str>);
    insert.execute::<MySql>(&mut connection).await.expect("a row");

    let rows = Statement::new("SELECT word, text, id FROM words ORDER BY id").fetch_all::<MySql>(&mut connection).await;
    let rows = rows.expect("rows");
    assert_eq!(rows[0].text(0).expect("text"), "Größe ");
    assert_eq!(rows[0].value::<Option<String>>(0).expect("text").as_deref(), Some("Größe "));
    assert_eq!(rows[0].value::<String>(1).expect("text"), "Größe");
    assert_eq!(rows[0].bytes(0).expect("bytes"), "Größe ".as_bytes());
    assert_eq!(rows[1].bytes(0).expect("bytes"), bytes);
    assert_eq!(rows[1].optional_text(1).expect("NULL"), None);
    assert_eq!(rows[1].value::<Option<String>>(1).expect("NULL"), None);
    rows[1].text(0).expect_err("bytes that are no text");
    rows[1].value::<String>(0).expect_err("bytes that are no text");
    rows[0].value::<String>(2).expect_err("a number is no text");
    rows[0].value::<i64>(0).expect_err("text is no number");
}

const TABLES: Migrations = Migrations {
    table: "leastlock_test_migrations",
    postgres: &[],
    sqlite: &[],
    mysql: &[
        Migration { version: 1, name: "two", sql: "CREATE TABLE one (id BIGINT); CREATE TABLE two (id BIGINT)" },
        Migration { version: 2, name: "row", sql: "INSERT INTO one VALUES (7)" },
    ],
};

pub(crate) async fn migrations_are_applied_once_and_validated(database: Database) {
    let missing = TABLES.validate(&database.pool).await;
    assert!(matches!(missing, Err(MigrationError::Read { .. })), "{missing:?}");
    for _ in 0..2 {
        TABLES.run(&database.pool).await.expect("the migrations apply");
        TABLES.validate(&database.pool).await.expect("they are there");
        assert_eq!(database.int("SELECT count(*) FROM one").await, 1);
    }
    database.execute("UPDATE leastlock_test_migrations SET checksum = 'x' WHERE version = 2").await;
    let differs = TABLES.validate(&database.pool).await;
    assert!(matches!(differs, Err(MigrationError::Differs { version: 2, .. })), "{differs:?}");
}

pub(crate) async fn a_crate_without_tables_for_the_engine_says_so(database: Database) {
    let without = Migrations { mysql: &[], postgres: TABLES.mysql, ..TABLES };
    for refused in [without.run(&database.pool).await, without.validate(&database.pool).await] {
        match refused {
            Err(error @ MigrationError::Unsupported { engine: Engine::MySql, .. }) => {
                assert!(error.to_string().contains("MySql"), "{error}");
            }
            other => panic!("no tables, and {other:?}"),
        }
    }
}
