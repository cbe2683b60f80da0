//! What a claim sets in its transaction on PostgreSQL, and what becomes of what the caller had set.
#![cfg(feature = "postgres")]

use leastlock_idempotency::{BeginIn, Keys};
use leastlock_testkit::TestDatabase;

use crate::keeper::{Call, fingerprint, key, tables};

/// The claim sets a lock time-out for itself, and bounds idling.
pub(crate) async fn stricter_time_outs_of_the_caller_stay(database: TestDatabase<sqlx::Postgres>) {
    let database = tables(database).await;
    let (keys, lamp) = (Keys::default(), fingerprint("lamp"));
    for (idle, bound) in [("0", "10s"), ("1min", "10s"), ("3s", "3s")] {
        let mut tx = database.pool.begin().await.unwrap();
        sqlx::raw_sql("SET LOCAL lock_timeout = '77s'").execute(&mut *tx).await.unwrap();
        let set = format!("SET LOCAL idle_in_transaction_session_timeout = '{idle}'");
        sqlx::raw_sql(sqlx::AssertSqlSafe(set)).execute(&mut *tx).await.unwrap();
        let claim = keys.begin_in::<_, u32>(&mut tx, &key(&Call::new("k1", "lamp")), &lamp).await.unwrap();
        assert!(matches!(claim, BeginIn::First(_)));
        let show = "SELECT current_setting('lock_timeout') || ', ' || \
            current_setting('idle_in_transaction_session_timeout')";
        let found: String = sqlx::query_scalar(show).fetch_one(&mut *tx).await.unwrap();
        assert_eq!(found, format!("77s, {bound}"), "the caller says {idle}");
    }
}
