//! How long it is on record who resolved what.

use std::time::Duration;

use leastlock_core::{Engine, Statement};
use leastlock_idempotency::phased::PhasedSql;
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::payer::tables;
use crate::steps::phased;

const DAY: Duration = Duration::from_hours(24);

/// Five resolutions; the reason says how many hours ago. Written in no order.
async fn five_resolutions<DB: TestEngine + PhasedSql>(database: &TestDatabase<DB>) {
    let age = match DB::ENGINE {
        Engine::Postgres => {
            "UPDATE leastlock_idempotency_audit SET resolved_at = resolved_at - CAST(reason AS integer) * interval '1 hour'"
        }
        Engine::MySql => {
            "UPDATE leastlock_idempotency_audit SET resolved_at = resolved_at - INTERVAL CAST(reason AS SIGNED) HOUR"
        }
        _ => "UPDATE leastlock_idempotency_audit SET resolved_at = resolved_at - CAST(reason AS INTEGER) * 3600000",
    };
    database.execute("DELETE FROM leastlock_idempotency_audit").await;
    let mut connection = database.pool.acquire().await.unwrap();
    for hours in ["72", "0", "48", "96", "1"] {
        let row = Statement::new(DB::AUDIT).bind("//pay").bind("k1").bind(1).bind(None::<&str>);
        let row = row.bind("released").bind("ops").bind(hours);
        assert_eq!(row.execute::<DB>(&mut connection).await.unwrap(), 1);
    }
    database.execute(age).await;
}

/// What three sweeps of at most two delete, and what is left after the first and after the last.
async fn swept<DB: TestEngine + PhasedSql>(
    database: &TestDatabase<DB>,
    sweep: impl AsyncFn() -> u64,
) -> ([u64; 3], [Vec<String>; 2]) {
    let left = async || {
        let mut connection = database.pool.acquire().await.unwrap();
        let rows = Statement::new("SELECT reason FROM leastlock_idempotency_audit ORDER BY id");
        let rows = rows.fetch_all::<DB>(&mut connection).await.unwrap();
        rows.iter().map(|row| row.text(0).unwrap()).collect::<Vec<_>>()
    };
    five_resolutions(database).await;
    let first = sweep().await;
    let after_first = left().await;
    let deleted = [first, sweep().await, sweep().await];
    (deleted, [after_first, left().await])
}

pub(crate) async fn audit_is_swept_by_age_in_batches_the_oldest_first<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, _bank) = tables(database).await;
    let expected =
        ([2, 1, 0], [vec!["0".to_owned(), "48".to_owned(), "1".to_owned()], vec!["0".to_owned(), "1".to_owned()]]);
    let product = async || phased().sweep_audit(&database.pool, DAY, 2).await.unwrap();
    assert_eq!(swept(&database, product).await, expected);
    let never = phased().sweep_audit(&database.pool, Duration::MAX, 2).await;
    assert_eq!(never.unwrap(), 0, "each engine can reckon with whatever is asked");

    // The doubles: one takes what was written first, whatever its age; one has no bound.
    let statement = async |sql: &'static str| {
        let mut connection = database.pool.acquire().await.unwrap();
        Statement::new(sql).execute::<DB>(&mut connection).await.unwrap()
    };
    for double in [
        "DELETE FROM leastlock_idempotency_audit WHERE id IN (SELECT id FROM (SELECT id FROM leastlock_idempotency_audit \
         ORDER BY id LIMIT 2) AS oldest)",
        "DELETE FROM leastlock_idempotency_audit WHERE reason IN ('96', '72', '48')",
    ] {
        assert_ne!(swept(&database, async || statement(double).await).await, expected, "{double}");
    }
}
