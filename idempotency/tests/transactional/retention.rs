//! How long records live, and who takes the place of one that has expired.

use std::time::Duration;

use futures_util::future::join_all;
use leastlock_idempotency::{IdempotencySql, Keys};
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::keeper::{Call, Keeper, Product, clear, effects, ran, replayed, tables};

/// Ends the life of every record.
pub(crate) const EXPIRE: &str = "UPDATE leastlock_idempotency SET expires_at = created_at";

pub(crate) async fn record_lives_for_the_retention_from_its_claim<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    let seconds = match DB::ENGINE {
        leastlock_core::Engine::Postgres => {
            "SELECT extract(epoch FROM expires_at - created_at)::bigint FROM leastlock_idempotency"
        }
        leastlock_core::Engine::MySql => {
            "SELECT TIMESTAMPDIFF(SECOND, created_at, expires_at) FROM leastlock_idempotency"
        }
        _ => "SELECT (expires_at - created_at) / 1000 FROM leastlock_idempotency",
    };
    let week = Product(Keys::builder().retention(Duration::from_hours(7 * 24)).build().unwrap());
    assert_eq!(week.place(&database.pool, Call::new("k1", "lamp")).await, ran("lamp"));
    assert_eq!(database.int(seconds).await, 7 * 86_400);
    // So does one that takes the place of an expired record.
    database.execute(EXPIRE).await;
    assert_eq!(Product(Keys::default()).place(&database.pool, Call::new("k1", "lamp")).await, ran("lamp"));
    assert_eq!(database.int(seconds).await, 86_400);
}

pub(crate) async fn i15_expired_record_has_one_claimant_of_many<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    let product = Product::waiting();
    for round in 0..5 {
        clear(&database).await;
        assert_eq!(product.place(&database.pool, Call::new("k1", "lamp")).await, ran("lamp"));
        database.execute(EXPIRE).await;
        let mut told = join_all((0..8).map(|_| product.place(&database.pool, Call::new("k1", "rug")))).await;
        told.sort_by_key(|told| *told != ran("rug"));
        assert_eq!(told[0], ran("rug"), "round {round}");
        assert_eq!(told[1..], vec![replayed("rug"); 7], "round {round}");
        assert_eq!(effects(&database).await, 2, "round {round}");
    }
}
