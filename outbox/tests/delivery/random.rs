//! The statements about order, loss and stalls under random concurrent transactions. PostgreSQL only: elsewhere one writer
//! at a time leaves nothing to chance.

use std::collections::BTreeMap;
use std::time::Duration;

use leastlock_outbox::Outbox;
use leastlock_testkit::TestDatabase;
use sqlx::{Connection, PgPool, Postgres, Transaction};

use crate::doubles::{by_id_cursor, by_xid_order};
use crate::readers::{PATIENCE, Reading, append, commit, tables};

const WRITERS: u64 = 8;
const TRANSACTIONS: usize = 120;
const KEYS: usize = 6;

pub(crate) async fn b1_b2_b3_hold_under_random_transactions(database: TestDatabase<Postgres>) {
    let (database, outbox) = tables(database).await;
    let seed =
        std::env::var("LEASTLOCK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("LEASTLOCK_SEED={seed}");
    database.execute("CREATE TABLE item (key text PRIMARY KEY, moves bigint NOT NULL)").await;
    for key in 0..KEYS {
        let insert = "INSERT INTO item VALUES ($1, 0)";
        sqlx::query(insert).bind(format!("k{key}")).execute(&database.pool).await.unwrap();
    }
    let product = Reading::relay(&database.pool, 5);
    let doubles = [by_id_cursor(&database.pool), by_xid_order(&database.pool)];

    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (outbox, pool) = (outbox.clone(), database.pool.clone());
            tokio::spawn(async move { write(&outbox, &pool, fastrand::Rng::with_seed(seed ^ writer)).await })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    commit(&outbox, &database.pool, "end", "end:1").await;

    let moves: Vec<(String, i64)> =
        sqlx::query_as("SELECT key, moves FROM item").fetch_all(&database.pool).await.unwrap();
    let events: i64 = moves.iter().map(|(_, moves)| moves).sum();
    let all = usize::try_from(events).unwrap() + 1;
    assert!(product.comes_to(PATIENCE, |values| values.len() >= all).await, "some events were lost");
    let mut expected: BTreeMap<String, Vec<i64>> =
        moves.into_iter().map(|(key, moves)| (key, (1..=moves).collect())).collect();
    expected.insert("end".to_owned(), vec![1]);
    expected.retain(|_, numbers| !numbers.is_empty());
    assert_eq!(per_key(&product.values()), expected);
    for (double, name) in doubles.iter().zip(["id > cursor", "order by xid"]) {
        assert!(double.delivers("end:1", PATIENCE).await);
        assert_ne!(per_key(&double.values()), expected, "{name} must be seen to lose or turn round events");
    }
}

/// One writer's transactions: some on shared keys, some with savepoints, some rolled back, some slow.
async fn write(outbox: &Outbox, pool: &PgPool, mut rng: fastrand::Rng) {
    for _ in 0..TRANSACTIONS {
        let mut tx = pool.begin().await.unwrap();
        if rng.bool() {
            // A transaction id drawn early, so that older transactions commit last.
            sqlx::query("SELECT pg_current_xact_id()::text").execute(&mut *tx).await.unwrap();
            tokio::time::sleep(Duration::from_micros(rng.u64(0..3_000))).await;
        }
        // In key order, so that writers do not deadlock.
        let mut keys: Vec<usize> = (0..rng.usize(1..=3)).map(|_| rng.usize(0..KEYS)).collect();
        keys.sort_unstable();
        for key in keys {
            let mut savepoint = tx.begin().await.unwrap();
            move_item(outbox, &mut savepoint, key).await;
            if rng.u8(0..5) == 0 { savepoint.rollback().await.unwrap() } else { savepoint.commit().await.unwrap() }
        }
        if rng.u8(0..4) == 0 {
            tokio::time::sleep(Duration::from_micros(rng.u64(0..5_000))).await;
        }
        if rng.u8(0..6) == 0 { tx.rollback().await.unwrap() } else { tx.commit().await.unwrap() }
    }
}

/// Takes the key's lock, and appends an event that carries the key's number taken under it.
async fn move_item(outbox: &Outbox, tx: &mut Transaction<'_, Postgres>, key: usize) {
    let update = "UPDATE item SET moves = moves + 1 WHERE key = $1 RETURNING moves";
    let key = format!("k{key}");
    let moves: i64 = sqlx::query_scalar(update).bind(&key).fetch_one(&mut **tx).await.unwrap();
    append(outbox, tx, &key, &format!("{key}:{moves}")).await;
}

fn per_key(values: &[String]) -> BTreeMap<String, Vec<i64>> {
    let mut keys = BTreeMap::<String, Vec<i64>>::new();
    for (key, number) in values.iter().filter_map(|value| value.split_once(':')) {
        keys.entry(key.to_owned()).or_default().push(number.parse().unwrap());
    }
    keys
}
