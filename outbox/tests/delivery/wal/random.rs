//! The statements about order, loss and stalls under random concurrent transactions.

use std::collections::BTreeMap;
use std::time::Duration;

use leastlock_outbox::{Event, WalOutbox};
use leastlock_testkit::TestDatabase;
use sqlx::{Connection, PgPool, Postgres, Transaction};

use super::Shop;
use super::doubles::{self, marked};
use crate::readers::PATIENCE;

const WRITERS: u64 = 8;
const TRANSACTIONS: usize = 100;
const KEYS: usize = 6;

/// The relay is followed by another every so many events: each begins where the slot stands.
const CRASHES: [usize; 3] = [100, 300, 500];

pub(crate) async fn b1_b2_b3_hold_under_random_transactions(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    let seed =
        std::env::var("LEASTLOCK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("LEASTLOCK_SEED={seed}");
    shop.database.execute("CREATE TABLE item (key text PRIMARY KEY, moves bigint NOT NULL)").await;
    for key in 0..KEYS {
        let insert = "INSERT INTO item VALUES ($1, 0)";
        sqlx::query(insert).bind(format!("k{key}")).execute(shop.pool()).await.unwrap();
    }
    let copy = doubles::copy_of_the_slot(&shop).await;
    let double = doubles::by_place_cursor(&shop, &copy);
    let mut open = shop.pool().begin().await.unwrap();
    shop.append(&mut open, "open", &marked("open:1")).await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (outbox, pool) = (shop.outbox.clone(), shop.pool().clone());
            tokio::spawn(async move { write(&outbox, &pool, fastrand::Rng::with_seed(seed ^ writer)).await })
        })
        .collect();
    // A reader that is followed by others now and then, while transactions run.
    let mut delivered = Vec::new();
    let mut product = shop.reading(shop.pool(), 5);
    for after in CRASHES {
        let enough = after - delivered.len().min(after);
        assert!(product.comes_to(PATIENCE, |values| values.len() >= enough).await, "it stalls");
        delivered.extend(product.crash().await);
        product = shop.reading(shop.pool(), 5);
    }
    for writer in writers {
        writer.await.unwrap();
    }
    shop.commit("end", &marked("end:1")).await;
    assert!(product.delivers(&marked("end:1"), PATIENCE).await, "an open transaction stalls the others");
    open.commit().await.unwrap();
    assert!(product.delivers(&marked("open:1"), PATIENCE).await);
    delivered.extend(product.crash().await);
    assert!(double.delivers("end:1", PATIENCE).await);

    let moves: Vec<(String, i64)> = sqlx::query_as("SELECT key, moves FROM item").fetch_all(shop.pool()).await.unwrap();
    let mut expected: BTreeMap<String, Vec<i64>> =
        moves.into_iter().map(|(key, moves)| (key, (1..=moves).collect())).collect();
    expected.extend([("end".to_owned(), vec![1]), ("open".to_owned(), vec![1])]);
    expected.retain(|_, numbers| !numbers.is_empty());
    assert_eq!(first_occurrences(&delivered), expected);
    let marked: Vec<_> = double.values().iter().map(|value| marked(value)).collect();
    assert_ne!(first_occurrences(&marked), expected, "`lsn > last` must be seen to lose events");
}

/// One writer's transactions: on shared keys, some with savepoints, some rolled back, some slow.
async fn write(outbox: &WalOutbox, pool: &PgPool, mut rng: fastrand::Rng) {
    for _ in 0..TRANSACTIONS {
        let mut tx = pool.begin().await.unwrap();
        if rng.bool() {
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
async fn move_item(outbox: &WalOutbox, tx: &mut Transaction<'_, Postgres>, key: usize) {
    let update = "UPDATE item SET moves = moves + 1 WHERE key = $1 RETURNING moves";
    let key = format!("k{key}");
    let moves: i64 = sqlx::query_scalar(update).bind(&key).fetch_one(&mut **tx).await.unwrap();
    let value = marked(&format!("{key}:{moves}"));
    outbox.append(tx, Event::new("moves", key).bytes(value)).await.unwrap();
}

/// The numbers of each key in the order in which they came first.
fn first_occurrences(values: &[String]) -> BTreeMap<String, Vec<i64>> {
    let mut keys = BTreeMap::<String, Vec<i64>>::new();
    for value in values {
        let value = value.strip_prefix("value:").expect("they are marked");
        let (key, number) = value.split_once(':').expect("a key and a number");
        let (numbers, number) = (keys.entry(key.to_owned()).or_default(), number.parse().expect("a number"));
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    keys
}
