//! Writers on shared keys. An event carries the number of its key's move, taken under the lock of the key's row.

use std::time::Duration;

use leastlock_outbox::{Event, Outbox};
use leastlock_testkit::TestDatabase;
use sqlx::{PgPool, Postgres, Transaction};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const WRITERS: u64 = 4;
const KEYS: usize = 20;
/// Of each writer, so that some 300 events are written in a second.
const PAUSE: Duration = Duration::from_millis(20);

/// A row for each key.
pub(crate) async fn prepare(database: &TestDatabase<Postgres>) {
    database.execute("CREATE TABLE item (key text PRIMARY KEY, moves bigint NOT NULL)").await;
    database.execute("INSERT INTO item SELECT 'k' || number, 0 FROM generate_series(0, 19) AS number").await;
}

/// How many moves of each key were committed.
pub(crate) async fn committed(pool: &PgPool) -> Vec<(String, u64)> {
    let rows: Vec<(String, i64)> =
        sqlx::query_as("SELECT key, moves FROM item WHERE moves > 0").fetch_all(pool).await.expect("it reads");
    rows.into_iter().map(|(key, moves)| (key, u64::try_from(moves).expect("not below zero"))).collect()
}

/// Writes until told to stop.
pub(crate) fn start(pool: &PgPool, outbox: &Outbox, topic: &str, seed: u64, stop: &CancellationToken) -> JoinSet<()> {
    let mut writing = JoinSet::new();
    for number in 0..WRITERS {
        let (pool, outbox, topic, stop) = (pool.clone(), outbox.clone(), topic.to_owned(), stop.clone());
        let mut rng = fastrand::Rng::with_seed(seed ^ number);
        writing.spawn(async move {
            while stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_some() {
                let mut tx = pool.begin().await.expect("a transaction");
                // In order, so that writers do not deadlock.
                let mut keys: Vec<usize> = (0..rng.usize(1..=3)).map(|_| rng.usize(..KEYS)).collect();
                keys.sort_unstable();
                for key in keys {
                    move_item(&outbox, &mut tx, &topic, key).await;
                }
                if rng.u8(..8) == 0 { tx.rollback().await } else { tx.commit().await }.expect("it ends");
            }
        });
    }
    writing
}

/// Appends moves of all keys in turn, so many in all, in transactions of 100.
pub(crate) async fn fill(pool: &PgPool, outbox: &Outbox, topic: &str, events: usize) {
    for hundred in 0..events / 100 {
        let mut tx = pool.begin().await.expect("a transaction");
        let numbers = hundred * 100..(hundred + 1) * 100;
        let events: Vec<_> = numbers
            .map(|number| event(topic, &format!("k{}", number % KEYS), number as u64 / KEYS as u64 + 1))
            .collect();
        outbox.append_all(&mut tx, &events).await.expect("they are appended");
        tx.commit().await.expect("it commits");
    }
    let moved = "UPDATE item SET moves = $1";
    let each = i64::try_from(events / KEYS).expect("a number");
    sqlx::query(moved).bind(each).execute(pool).await.expect("it writes");
}

async fn move_item(outbox: &Outbox, tx: &mut Transaction<'_, Postgres>, topic: &str, key: usize) {
    let update = "UPDATE item SET moves = moves + 1 WHERE key = $1 RETURNING moves";
    let key = format!("k{key}");
    let moves: i64 = sqlx::query_scalar(update).bind(&key).fetch_one(&mut **tx).await.expect("it moves");
    outbox.append(tx, event(topic, &key, u64::try_from(moves).expect("a number"))).await.expect("it is appended");
}

fn event(topic: &str, key: &str, number: u64) -> Event {
    Event::new(topic, key).bytes(number.to_string())
}
