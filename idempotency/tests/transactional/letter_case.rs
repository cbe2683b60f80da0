//! I21: keys and scopes are bytes.

use leastlock_idempotency::IdempotencySql;
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::keeper::{Call, Keeper, Product, Told, clear, ran, tables};

/// Two keys, then two scopes, that differ in case only; answers what the second of each pair was told.
async fn twins<DB: TestEngine + IdempotencySql>(database: &TestDatabase<DB>) -> [Told; 2] {
    clear(database).await;
    let product = Product::waiting();
    assert_eq!(product.place(&database.pool, Call::new("85123a", "lamp")).await, ran("lamp"));
    let key = product.place(&database.pool, Call::new("85123A", "rug")).await;
    let scope = product.place(&database.pool, Call::new("85123a", "rug").within("Place-Order")).await;
    [key, scope]
}

pub(crate) async fn i21_keys_that_differ_in_case_only_are_two_records<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    assert_eq!(twins(&database).await, [ran("rug"), ran("rug")]);
    if DB::ENGINE == leastlock_core::Engine::MySql {
        // The double: the same statements on columns of text, as one would declare them.
        let text = "ALTER TABLE leastlock_idempotency MODIFY scope VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL, \
            MODIFY idempotency_key VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL";
        clear(&database).await;
        database.execute(text).await;
        assert_eq!(twins(&database).await, [Told::Mismatch, Told::Mismatch], "the double is not caught");
    }
}
