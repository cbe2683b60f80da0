//! How long records live, and who takes the place of one that has expired.

use std::time::Duration;

use futures_util::future::join_all;
use leastlock_idempotency::{Begin, IdempotencySql, Keys};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::keeper::{Call, Keeper, Product, clear, effects, fingerprint, key, ran, replayed, tables};

const EXPIRE: &str = "UPDATE leastlock_idempotency SET expires_at = created_at";

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

/// On the servers: SQLite's sweep waits for its turn like every writer.
pub(crate) async fn sweep_does_not_wait_for_a_record_that_is_being_claimed<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    let product = Product::waiting();
    for name in ["k1", "k2", "k3"] {
        assert_eq!(product.place(&database.pool, Call::new(name, "lamp")).await, ran("lamp"));
    }
    database.execute(EXPIRE).await;
    let (k2, lamp) = (key(&Call::new("k2", "lamp")), fingerprint("lamp"));
    let Begin::First(unit) = product.0.begin::<DB, u32>(&database.pool, &k2, &lamp).await.unwrap() else {
        panic!("it has expired")
    };
    assert_eq!(product.0.sweep(&database.pool, 10).await.unwrap(), 2);

    // The double: a plain deletion waits for the claimant, here as long as it is let.
    let mut connection = database.pool.acquire().await.unwrap().detach();
    let limit = sql::<DB>("SET lock_timeout = '50ms'", "SET SESSION innodb_lock_wait_timeout = 0");
    DB::run_query(&mut connection, sqlx::query(limit)).await.unwrap();
    let plain = sql::<DB>(
        "DELETE FROM leastlock_idempotency WHERE expires_at <= clock_timestamp()",
        "DELETE FROM leastlock_idempotency WHERE expires_at <= UTC_TIMESTAMP(6)",
    );
    assert!(DB::run_query(&mut connection, sqlx::query(plain)).await.is_err(), "the double must be seen to wait");

    assert_eq!(unit.complete(7).await.unwrap(), 7);
    assert!(matches!(product.0.begin::<DB, u32>(&database.pool, &k2, &lamp).await.unwrap(), Begin::Replay(7)));
}
