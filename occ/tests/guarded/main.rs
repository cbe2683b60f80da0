//! Guarded statements: O11 and O15 on every engine, with the mistakes that the same tests reject.

#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod doubles;
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod suite;

leastlock_testkit::mount!(suite:
    a_refused_statement_is_told_from_an_applied_one,
    a_bound_admits_what_it_says_and_the_transaction_commits,
    o11_more_rows_than_allowed_cannot_be_committed,
    o11_the_connection_works_after_a_broken_bound,
    o11_a_savepoint_rolled_back_frees_the_outer_transaction,
    o15_two_hundred_clients_sell_exactly_the_stock,
);

/// SQLite's stand-in for the deferred foreign key, where the application has switched them off.
#[cfg(feature = "sqlite")]
#[tokio::test]
async fn o11_without_foreign_keys_the_commit_is_refused_as_well() {
    use leastlock_occ::{Error, guarded};
    use leastlock_testkit::TestDatabase;
    use leastlock_testkit::database::Sqlite;
    use sqlx::Connection;

    let database = TestDatabase::<Sqlite>::create().await;
    suite::stock_of_two_codes(&database).await;
    let mut connection = database.pool.acquire().await.expect("a connection").detach();
    sqlx::query("PRAGMA foreign_keys = OFF").execute(&mut connection).await.expect("a pragma");

    let mut tx = connection.begin().await.expect("a transaction");
    let broken = guarded(sqlx::query(suite::EMPTY_ALL)).exactly(1).execute(&mut tx).await;
    assert!(matches!(broken, Err(Error::RowsOutOfBounds { actual: 2, .. })), "{broken:?}");
    drop(tx);
    let mut tx = connection.begin().await.expect("a dropped transaction leaves the connection as it was");
    let broken = guarded(sqlx::query(suite::EMPTY_ALL)).exactly(1).execute(&mut tx).await;
    assert!(matches!(broken, Err(Error::RowsOutOfBounds { actual: 2, .. })), "{broken:?}");
    tx.commit().await.expect_err("the hook refuses the commit");
    assert_eq!(database.int(suite::sum::<Sqlite>()).await, 12);
}
