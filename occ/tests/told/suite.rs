//! Each mistake, and what is said of it.

use std::error::Error as StdError;

use leastlock_occ::combiner::CombineError;
use leastlock_occ::{Counted, MIGRATIONS, Movement, StockCounter, StockSql, StockTable};
#[cfg(feature = "postgres")]
use leastlock_occ::{Error, StateConflict, Transition, Transitioned, Version, Versioned, versioned};
#[cfg(feature = "postgres")]
use leastlock_testkit::database::Postgres;
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};

/// An error with its causes.
fn whole(error: &(dyn StdError + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        line = format!("{line}: {error}");
        cause = error.source();
    }
    line
}

pub(crate) async fn an_order_id_without_its_table_is_told_of_the_migrations<DB: TestEngine + StockSql>(
    database: TestDatabase<DB>,
) {
    let table = sql::<DB>(
        "CREATE TABLE stock (code VARCHAR(20) PRIMARY KEY, units BIGINT NOT NULL CHECK (units <= 5))",
        "CREATE TABLE stock (code VARBINARY(20) PRIMARY KEY, units BIGINT NOT NULL CHECK (units <= 5))",
    );
    database.execute(table).await;
    database.execute("INSERT INTO stock VALUES ('a', 5)").await;
    let table = StockTable::new("stock", "code", "units").expect("plain names");
    let stock = StockCounter::builder(&database.pool, &table).build().expect("the default limits");
    let order = || Movement::take("a", 1).and_then(|order| order.with_order_id("7")).expect("an order");

    let failed = stock.submit(order()).await.expect_err("there is no table for the id");
    assert!(matches!(failed, CombineError::Failed { .. }), "{failed:?}");
    let told = whole(&failed);
    assert!(told.contains("leastlock_occ::MIGRATIONS") && !told.contains("1 attempts"), "{told}");
    // What fails for another reason is not told of them.
    let too_many = stock.submit(Movement::give("a", 1).expect("a movement")).await.expect_err("more than may be");
    assert!(!whole(&too_many).contains("MIGRATIONS"), "{}", whole(&too_many));

    MIGRATIONS.run(&database.pool).await.expect("the tables");
    assert_eq!(stock.submit(order()).await.expect("an answer"), Counted::Applied);
}

#[cfg(feature = "postgres")]
#[derive(Debug, Clone, Versioned)]
#[versioned(table = "account", key = "id", version = "version")]
struct Account {
    id: String,
    #[versioned(column = "edition")]
    version: Version,
}

#[cfg(feature = "postgres")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Transition)]
#[transition(table = "account", key = "id", state = "state", version = "edition")]
enum AccountState {
    #[transition(initial, to(Closed))]
    Open,
    Closed,
}

/// Columns are told by their names in the database, and `INTEGER` is `INT4` there.
#[cfg(feature = "postgres")]
pub(crate) async fn a_version_that_is_no_bigint_is_told_with_its_column(database: TestDatabase<Postgres>) {
    database.execute("CREATE TABLE account (id TEXT PRIMARY KEY, state TEXT NOT NULL, edition INTEGER NOT NULL)").await;
    database.execute("INSERT INTO account VALUES ('a', 'open', 1)").await;
    let mut tx = database.pool.begin().await.expect("a transaction");
    let told = |error: Error, names: [&str; 2]| {
        assert!(matches!(error, Error::VersionType { .. }) && !error.is_retryable(), "{error:?}");
        let text = error.to_string();
        assert!(names.iter().all(|name| text.contains(name)) && text.contains("BIGINT"), "{text}");
        assert!(whole(&error).contains("INT4"), "sqlx's own words are kept: {}", whole(&error));
    };
    told(Account::load(&mut *tx, "a").await.expect_err("an INTEGER"), ["account", "edition"]);
    told(Account::lock_row(&mut tx, "a").await.expect_err("an INTEGER"), ["account", "edition"]);
    told(Account::load_many(&mut *tx, ["a"]).await.expect_err("an INTEGER"), ["account", "edition"]);
    let (open, closed) = (AccountState::Open, AccountState::Closed);
    let moved = AccountState::transition_at(&mut tx, "a", Version::new(7), open, closed).await;
    told(moved.expect_err("an INTEGER"), ["account", "edition"]);
    let update = sqlx::query("UPDATE account SET edition = edition + 1 WHERE id = 'a' AND edition = 7");
    let checked = versioned(update, Version::new(7)).actual_by(sqlx::query("SELECT edition FROM account"));
    told(checked.execute(&mut tx).await.expect_err("an INTEGER"), ["actual_by", "first column"]);
    drop(tx);

    // With the type that the text asks for, each is answered.
    database.execute("ALTER TABLE account ALTER COLUMN edition TYPE BIGINT").await;
    // On a new connection: those that were there keep their plans.
    let pool = Postgres::connect(&database.url).await;
    let mut tx = pool.begin().await.expect("a transaction");
    assert!(Account::load(&mut *tx, "a").await.expect("a BIGINT").is_some());
    let moved = AccountState::transition_at(&mut tx, "a", Version::new(7), open, closed).await.expect("a BIGINT");
    let stale = StateConflict::Stale { expected: Version::new(7), actual: Version::new(1) };
    assert_eq!(moved, Transitioned::Conflict(stale));
}
