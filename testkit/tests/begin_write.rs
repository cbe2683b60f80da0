//! What every transaction of the library's own begins with.

use leastlock_core::Dialect;
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::Postgres;

/// A process that stops inside a transaction must not freeze others, whatever the server's and the session's settings are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_transactions_read_committed_and_bound_idling() {
    let database = TestDatabase::<Postgres>::create().await;
    for (session, bound) in [("0", "10s"), ("1min", "10s"), ("2s", "2s"), ("250ms", "250ms")] {
        let mut connection = database.pool.acquire().await.unwrap();
        let settings = format!(
            "SET default_transaction_isolation = 'repeatable read'; SET idle_in_transaction_session_timeout = '{session}'"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(settings)).execute(&mut *connection).await.unwrap();
        let begun = sqlx::Connection::begin_with(&mut *connection, Postgres::BEGIN_WRITE).await;
        let mut tx = begun.expect("a transaction is open");
        let show = "SELECT current_setting('idle_in_transaction_session_timeout') || ', ' || \
            current_setting('transaction_isolation')";
        let found: String = sqlx::query_scalar(show).fetch_one(&mut *tx).await.unwrap();
        assert_eq!(found, format!("{bound}, read committed"), "the session says {session}");
        tx.rollback().await.unwrap();
        let after: String =
            sqlx::query_scalar("SHOW idle_in_transaction_session_timeout").fetch_one(&mut *connection).await.unwrap();
        assert_eq!(after, session, "the session's own setting is back");
        connection.close().await.unwrap();
    }
}
