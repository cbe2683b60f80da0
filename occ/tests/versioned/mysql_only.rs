//! O7, O16, and what its default isolation level does: the cases that only MySQL and MariaDB can get wrong.

use leastlock_occ::{Conflict, Guarded, Update, Version, Versioned, guarded};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::MySql;

use super::accounts::{Account, account_table};
use super::changed_rows;

const UNCHANGED: &str = "UPDATE account SET balance = 100 WHERE id = 'a'";

pub(crate) async fn o7_setting_a_column_to_the_value_it_has_is_applied(database: TestDatabase<MySql>) {
    account_table(&database).await;
    let mut connection = database.pool.acquire().await.expect("a connection");
    let applied = guarded(sqlx::query(UNCHANGED)).execute(&mut *connection).await.expect("it runs");
    assert_eq!(applied, Guarded::Applied { rows: 1 });
    let loaded = Account::load(&mut *connection, "a").await.expect("a read").expect("the account");
    let second = loaded.update(&mut *connection, |a| a.balance = 100).await.expect("an outcome");
    let second = second.into_result().expect("no conflict");
    assert_eq!((second.balance, second.version), (100, Version::new(2)));

    // A versioned update changes the version, so it is counted by whatever counts.
    let mut counts_changed = changed_rows::connection(&database).await;
    let third = second.update(&mut counts_changed, |a| a.balance = 100).await.expect("an outcome");
    assert_eq!(third.into_result().map(|third| third.version), Ok(Version::new(3)));

    // The double is the connection: on it the statement without a version seems to have found no row.
    let missed = guarded(sqlx::query(UNCHANGED)).execute(&mut counts_changed).await.expect("it runs");
    assert!(missed.is_refused(), "the double is not caught");
}

/// As the guide has it: a key of bytes.
#[derive(Debug, Clone, PartialEq, Versioned)]
#[versioned(table = "stock", key = "code", version = "version")]
pub(crate) struct Stock {
    code: String,
    note: Option<String>,
    version: Version,
}

/// The double: a key of text, in the server's default collation.
#[derive(Debug, Clone, PartialEq, Versioned)]
#[versioned(table = "collated", key = "code", version = "version")]
pub(crate) struct Collated {
    code: String,
    note: Option<String>,
    version: Version,
}

macro_rules! two_codes {
    ($row:ident, $database:expr) => {
        async {
            let mut connection = $database.pool.acquire().await.expect("a connection");
            for code in ["85123A", "85123a", "85123a "] {
                let row = $row { code: code.to_owned(), note: Some(code.to_owned()), version: Version::FIRST };
                row.insert(&mut *connection).await.map_err(|error| format!("{code:?}: {error}"))?;
            }
            let upper = $row::load(&mut *connection, "85123A").await.expect("a read").ok_or("no upper case")?;
            upper
                .update(&mut *connection, |row| row.note = None)
                .await
                .expect("an outcome")
                .into_result()
                .expect("none");
            let lower = $row::load(&mut *connection, "85123a").await.expect("a read").ok_or("no lower case")?;
            if (lower.code.as_str(), lower.note.as_deref(), lower.version) != ("85123a", Some("85123a"), Version::FIRST)
            {
                return Err(format!("found {lower:?}"));
            }
            Ok::<(), String>(())
        }
        .await
    };
}

pub(crate) async fn o16_keys_that_differ_in_case_only_are_two_rows(database: TestDatabase<MySql>) {
    database.execute("CREATE TABLE stock (code VARBINARY(20) PRIMARY KEY, note TEXT, version BIGINT NOT NULL)").await;
    database.execute("CREATE TABLE collated (code VARCHAR(20) PRIMARY KEY, note TEXT, version BIGINT NOT NULL)").await;
    assert_eq!(two_codes!(Stock, database), Ok(()));
    assert_eq!(database.int("SELECT count(*) FROM stock").await, 3);
    let double = two_codes!(Collated, database);
    println!("the double: {double:?}");
    assert!(double.is_err(), "the double is not caught");
}

/// Without `innodb_snapshot_isolation` (off by default before MariaDB 11.6) a write goes beyond the snapshot, and so must the
/// statement that reads the actual version.
pub(crate) async fn an_old_snapshot_does_not_hide_the_conflict(database: TestDatabase<MySql>) {
    account_table(&database).await;
    let begin =
        "SET innodb_snapshot_isolation = OFF; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION";
    let mut tx = database.pool.begin_with(begin).await.expect("a transaction");
    let loaded = Account::load(&mut *tx, "a").await.expect("a read").expect("the account");
    database.execute("UPDATE account SET version = version + 1").await;
    let outcome = loaded.update(&mut *tx, |a| a.balance = 0).await.expect("an outcome");
    let stale = Conflict::Stale { expected: Version::new(1), actual: Version::new(2) };
    assert_eq!(outcome, Update::Conflict(stale));
}
