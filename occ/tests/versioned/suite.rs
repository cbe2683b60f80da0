//! The cases: each scenario comes out right for the real implementations and is failed by its double.

use leastlock_core::{Engine, ErrorClass};
use leastlock_occ::{Bound, Checked, Column, Conflict, Error, Stored, Update, Version, Versioned, versioned};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};

use super::accounts::{Account, Derived, HandWritten, VERSION, Verdict, account_table, actual, adding, load};
use super::conflicts;
use super::doubles::{CallsEverythingStale, DeletesByKey, RaisesInPlace, SkipsTheCheckWithoutVersion};
use super::waiting::{
    AsksInOneStatement, OnAnOldSnapshot, ReadsBeforeItWrites, ReadsItsOldSnapshot, conflict_after_a_wait,
};

const fn sum<DB: TestEngine>() -> &'static str {
    sql::<DB>("SELECT CAST(sum(balance) AS BIGINT) FROM account", "SELECT CAST(sum(balance) AS SIGNED) FROM account")
}

/// A case that both real implementations pass and whose double fails.
macro_rules! judged {
    ($case:ident: $scenario:ident, double $double:ty) => {
        pub(crate) async fn $case<DB: TestEngine>(database: TestDatabase<DB>)
        where
            Account: Stored<DB>,
            i64: Column<DB>,
        {
            account_table(&database).await;
            assert_eq!(conflicts::$scenario::<DB, Derived>(&database).await, Ok(()));
            assert_eq!(conflicts::$scenario::<DB, HandWritten>(&database).await, Ok(()));
            let caught = conflicts::$scenario::<DB, $double>(&database).await;
            println!("the double: {caught:?}");
            assert!(caught.is_err(), "the double is not caught");
        }
    };
}

judged!(o1_delete_with_a_stale_version_deletes_nothing: stale_delete, double DeletesByKey);
judged!(o2_a_value_that_met_a_conflict_meets_it_again: second_update_after_a_conflict, double RaisesInPlace);
judged!(o3_a_value_outlives_the_rollback_of_its_update: update_after_a_rollback, double RaisesInPlace);
judged!(o4_a_null_version_is_an_error_and_nothing_is_written: null_version, double SkipsTheCheckWithoutVersion);
judged!(o5_zero_is_an_ordinary_version: version_zero, double SkipsTheCheckWithoutVersion);
judged!(o6_a_missing_row_is_told_from_a_changed_one: missing_or_changed, double CallsEverythingStale);

pub(crate) async fn o11_a_key_that_is_not_unique_cannot_be_committed<DB: TestEngine>(database: TestDatabase<DB>)
where
    Account: Stored<DB>,
    i64: Column<DB>,
{
    database.execute("CREATE TABLE account (id VARCHAR(20), balance BIGINT NOT NULL, version BIGINT NOT NULL)").await;
    database.execute("INSERT INTO account VALUES ('a', 100, 1), ('a', 100, 1)").await;
    let loaded = load::<DB, Derived>(&database).await.expect("one of them");
    for write in ["update", "delete", "hand-written"] {
        let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
        let broken = match write {
            "update" => loaded.update(&mut *tx, |a| a.balance = 0).await.map(|_| ()),
            "delete" => loaded.delete(&mut *tx).await.map(|_| ()),
            _ => {
                let update = sqlx::query(adding::<DB>()).bind(10_i64).bind(1_i64);
                let update = versioned(update, loaded.version).actual_by(sqlx::query(actual::<DB>()));
                update.execute(&mut tx).await.map(|_| ())
            }
        };
        let out_of_bounds = matches!(broken, Err(Error::RowsOutOfBounds { expected: Bound::Exactly(1), actual: 2 }));
        assert!(out_of_bounds, "{write}: {broken:?}");
        let committed = tx.commit().await;
        assert!(committed.is_err() || DB::ENGINE != Engine::Sqlite, "{write}: the commit was accepted");
        assert_eq!(database.int(sum::<DB>()).await, 200, "{write}");
    }
}

pub(crate) async fn o17_a_conflict_after_a_wait_names_the_version_now_in_the_table<DB: TestEngine>(
    database: TestDatabase<DB>,
) where
    Account: Stored<DB>,
    i64: Column<DB>,
{
    account_table(&database).await;
    let right = Verdict::Stale { expected: 1, actual: 7 };
    assert_eq!(conflict_after_a_wait::<DB, Derived>(&database).await, right);
    assert_eq!(conflict_after_a_wait::<DB, HandWritten>(&database).await, right);
    let double = conflict_after_a_wait::<DB, ReadsBeforeItWrites>(&database).await;
    assert_eq!(double, Verdict::Stale { expected: 1, actual: 1 }, "the double is not caught");
    if DB::ENGINE == Engine::Postgres {
        let double = conflict_after_a_wait::<DB, AsksInOneStatement>(&database).await;
        assert_eq!(double, Verdict::Stale { expected: 1, actual: 1 }, "the double is not caught");
    }
    if DB::ENGINE == Engine::MySql {
        assert_eq!(conflict_after_a_wait::<DB, OnAnOldSnapshot<Derived>>(&database).await, right);
        assert_eq!(conflict_after_a_wait::<DB, OnAnOldSnapshot<HandWritten>>(&database).await, right);
        let double = conflict_after_a_wait::<DB, ReadsItsOldSnapshot>(&database).await;
        assert_eq!(double, Verdict::Stale { expected: 1, actual: 1 }, "the double is not caught");
    }
}

pub(crate) async fn insert_starts_at_version_one_and_answers_a_new_value<DB: TestEngine>(database: TestDatabase<DB>)
where
    Account: Stored<DB>,
{
    account_table(&database).await;
    let mut connection = database.pool.acquire().await.expect("a connection");
    let value = Account { id: "b".to_owned(), balance: 7, version: Version::new(99) };
    let inserted = value.insert(&mut *connection).await.expect("a new row");
    assert_eq!((inserted.version, value.version), (Version::FIRST, Version::new(99)));
    assert_eq!(Account::load(&mut *connection, "b").await.expect("a read"), Some(inserted));
    assert_eq!(Account::load(&mut *connection, "c").await.expect("a read"), None);
    match value.insert(&mut *connection).await {
        Err(error @ Error::Database { class: ErrorClass::UniqueViolation, .. }) => assert!(!error.is_retryable()),
        other => panic!("a key that exists: {other:?}"),
    }
}

pub(crate) async fn one_of_many_writers_of_a_version_is_applied<DB: TestEngine>(database: TestDatabase<DB>)
where
    Account: Stored<DB>,
{
    account_table(&database).await;
    let loaded = load::<DB, Derived>(&database).await.expect("the account");
    let writer = |amount: i64| {
        let (pool, account) = (database.pool.clone(), loaded.clone());
        async move {
            // No transaction: the one statement is whole in itself.
            let mut connection = pool.acquire().await.expect("a connection");
            account.update(&mut *connection, |a| a.balance += amount).await.expect("an outcome")
        }
    };
    let outcomes = tokio::join!(writer(1), writer(2), writer(3), writer(4), writer(5));
    let outcomes: [Update<Account>; 5] = outcomes.into();
    let applied: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.clone().into_result().ok()).collect();
    let [winner] = &applied[..] else { panic!("{} writers were applied", applied.len()) };
    let stale = Update::Conflict(Conflict::Stale { expected: Version::new(1), actual: Version::new(2) });
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == stale).count(), 4);
    assert_eq!(load::<DB, Derived>(&database).await.as_ref(), Ok(winner));
}

/// Where the isolation level itself refuses a write over a snapshot that is too old, there is no outcome but a rerun.
pub(crate) async fn a_snapshot_that_is_too_old_is_a_retryable_error<DB: TestEngine>(database: TestDatabase<DB>)
where
    Account: Stored<DB>,
{
    account_table(&database).await;
    let begin = match DB::ENGINE {
        Engine::Postgres => "BEGIN ISOLATION LEVEL REPEATABLE READ",
        // The default from MariaDB 11.6 on.
        Engine::MySql => {
            "SET innodb_snapshot_isolation = ON; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION"
        }
        _ => "BEGIN",
    };
    let mut tx = database.pool.begin_with(begin).await.expect("a transaction");
    let loaded = Account::load(&mut *tx, "a").await.expect("a read").expect("the account");
    database.execute("UPDATE account SET version = version + 1").await;
    match loaded.update(&mut *tx, |a| a.balance = 0).await {
        Err(error @ Error::Database { class: ErrorClass::SerializationFailure, .. }) => assert!(error.is_retryable()),
        other => panic!("a write over an old snapshot: {other:?}"),
    }
}

pub(crate) async fn a_change_of_the_key_is_refused_before_any_sql<DB: TestEngine>(database: TestDatabase<DB>)
where
    Account: Stored<DB>,
{
    account_table(&database).await;
    let loaded = load::<DB, Derived>(&database).await.expect("the account");
    let mut connection = database.pool.acquire().await.expect("a connection");
    let renamed = loaded.update(&mut *connection, |a| a.id.push('b')).await;
    assert!(matches!(renamed, Err(Error::KeyChanged { table: "account" })), "{renamed:?}");
    // The version is the library's: what a change makes of it is overwritten.
    let meddled = loaded.update(&mut *connection, |a| a.version = Version::new(40)).await.expect("an outcome");
    assert_eq!(meddled.into_result().map(|new| new.version), Ok(Version::new(2)));
    assert_eq!(database.int(VERSION).await, 2);
}

pub(crate) async fn the_last_version_has_no_successor<DB: TestEngine>(database: TestDatabase<DB>)
where
    Account: Stored<DB>,
    i64: Column<DB>,
{
    account_table(&database).await;
    database.execute("UPDATE account SET version = 9223372036854775807").await;
    let loaded = load::<DB, Derived>(&database).await.expect("the account");
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let over = loaded.update(&mut *tx, |a| a.balance = 0).await;
    assert!(matches!(over, Err(Error::VersionOverflow { .. })), "{over:?}");
    let update = sqlx::query(adding::<DB>()).bind(10_i64).bind(i64::MAX);
    let over = versioned(update, loaded.version).actual_by(sqlx::query(actual::<DB>())).execute(&mut tx).await;
    assert!(matches!(over, Err(Error::VersionOverflow { .. })), "{over:?}");
    tx.commit().await.expect("nothing was done");
    assert_eq!(load::<DB, Derived>(&database).await, Ok(loaded));
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) async fn a_suppressed_write_is_not_taken_for_a_conflict<DB: TestEngine>(database: TestDatabase<DB>)
where
    Account: Stored<DB>,
{
    account_table(&database).await;
    if DB::ENGINE == Engine::Postgres {
        let function = "CREATE FUNCTION ignore() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'";
        database.execute(function).await;
        let trigger = "CREATE TRIGGER frozen BEFORE UPDATE ON account FOR EACH ROW EXECUTE FUNCTION ignore()";
        database.execute(trigger).await;
    } else {
        let trigger = "CREATE TRIGGER frozen BEFORE UPDATE ON account BEGIN SELECT RAISE(IGNORE); END";
        database.execute(trigger).await;
    }
    let loaded = load::<DB, Derived>(&database).await.expect("the account");
    let mut connection = database.pool.acquire().await.expect("a connection");
    let suppressed = loaded.update(&mut *connection, |a| a.balance = 0).await;
    assert!(matches!(suppressed, Err(Error::Suppressed { table: "account" })), "{suppressed:?}");
}

pub(crate) async fn a_condition_of_the_callers_own_is_told_from_a_conflict<DB: TestEngine>(database: TestDatabase<DB>)
where
    i64: Column<DB>,
{
    const SPEND: &str = "UPDATE account SET balance = balance - $1, version = version + 1 \
        WHERE id = 'a' AND version = $2 AND balance >= $3";
    const SPEND_MYSQL: &str = "UPDATE account SET balance = balance - ?, version = version + 1 \
        WHERE id = 'a' AND version = ? AND balance >= ?";
    account_table(&database).await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    let spend = |amount: i64, version: i64| {
        let update = sqlx::query(sql::<DB>(SPEND, SPEND_MYSQL)).bind(amount).bind(version).bind(amount);
        versioned::<DB>(update, Version::new(version)).actual_by(sqlx::query(actual::<DB>()))
    };
    assert_eq!(spend(101, 1).execute(&mut tx).await.expect("an outcome"), Checked::Refused);
    assert_eq!(spend(100, 1).execute(&mut tx).await.expect("an outcome"), Checked::Applied(Version::new(2)));
    let stale = Conflict::Stale { expected: Version::new(1), actual: Version::new(2) };
    assert_eq!(spend(100, 1).execute(&mut tx).await.expect("an outcome"), Checked::Conflict(stale));
}

/// A row whose names would all be mistaken for something else without quotes.
macro_rules! awkward_names {
    ($case:ident: $order:ident in $table:literal, $tables:expr) => {
        #[derive(Debug, Clone, PartialEq, Versioned)]
        #[versioned(table = $table, key("warehouse", "code"), version = "select")]
        pub(crate) struct $order {
            code: i64,
            r#type: Option<String>,
            #[versioned(column = "Group")]
            connection: f64,
            warehouse: String,
            select: i64,
        }

        pub(crate) async fn $case<DB: TestEngine>(database: TestDatabase<DB>)
        where
            $order: Stored<DB>,
        {
            for statement in $tables(DB::ENGINE) {
                database.execute(statement).await;
            }
            let mut connection = database.pool.acquire().await.expect("a connection");
            for warehouse in ["north", "south"] {
                let order =
                    $order { warehouse: warehouse.to_owned(), code: 7, r#type: None, connection: 1.5, select: 0 };
                order.insert(&mut *connection).await.expect("a row");
            }
            let order = $order::load(&mut *connection, "south", &7).await.expect("a read").expect("the row");
            let outcome = order.update(&mut *connection, |order| order.r#type = Some("rush".to_owned())).await;
            let written = outcome.expect("an outcome").into_result().expect("no conflict");
            assert_eq!(written, $order { r#type: Some("rush".to_owned()), select: 2, ..order.clone() });
            assert_eq!($order::load(&mut *connection, "south", &7).await.expect("a read"), Some(written));
            let other = $order::load(&mut *connection, "north", &7).await.expect("a read").expect("the row");
            assert_eq!((other.r#type, other.select), (None, 1));
            let stale = order.delete(&mut *connection).await.expect("an outcome");
            assert_eq!(
                stale,
                leastlock_occ::Delete::Conflict(Conflict::Stale { expected: 1.into(), actual: 2.into() })
            );
        }
    };
}

awkward_names!(keys_of_several_columns_and_reserved_words: Order in "order", |engine| match engine {
    Engine::MySql => vec![
        "CREATE TABLE `order` (warehouse VARBINARY(20), code BIGINT, `type` TEXT, \
            `Group` DOUBLE PRECISION NOT NULL, `select` BIGINT NOT NULL, PRIMARY KEY (warehouse, code))",
    ],
    _ => vec![
        "CREATE TABLE \"order\" (warehouse VARCHAR(20), code BIGINT, \"type\" TEXT, \
            \"Group\" DOUBLE PRECISION NOT NULL, \"select\" BIGINT NOT NULL, PRIMARY KEY (warehouse, code))",
    ],
});

// A schema is a database of the server's on MySQL, where a test cannot have a second one.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
awkward_names!(a_table_may_stand_in_a_schema: SchemaOrder in "main.order", |engine| {
    let table = "CREATE TABLE main.\"order\" (warehouse VARCHAR(20), code BIGINT, \"type\" TEXT, \
        \"Group\" DOUBLE PRECISION NOT NULL, \"select\" BIGINT NOT NULL, PRIMARY KEY (warehouse, code))";
    if engine == Engine::Postgres { vec!["CREATE SCHEMA main", table] } else { vec![table] }
});
