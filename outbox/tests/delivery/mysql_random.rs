//! What is said of readers, under random concurrent transactions, where published rows are deleted: the product loses, doubles,
//! turns round and holds back nothing; each of four readers that were made in public does one of these. Nobody may wait for the
//! relay or deadlock with it: each statement of a writer is expected to succeed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leastlock_outbox::{Event, Outbox};
use leastlock_testkit::TestDatabase;
use sqlx::{Connection, MySql, MySqlPool, Transaction};

use crate::mysql_doubles::{by_event_id, by_id_cursor, by_locking_read, by_range_delete};
use crate::readers::{PATIENCE, Reading, Received, append, tables};

const WRITERS: u64 = 8;
const TRANSACTIONS: usize = 60;
/// Keys that all writers share, and one more for each that is its own.
const SHARED_KEYS: usize = 6;
/// How long a delivery that a double withholds is waited for; only the double's proof depends on it.
const DOUBLES_CHANCE: Duration = Duration::from_secs(1);

/// A row's header decides how long the row, and those before it in its statement, stay invisible after their ids are drawn.
const DELAY: &str = "CREATE TRIGGER delay BEFORE INSERT ON leastlock_outbox FOR EACH ROW \
    BEGIN IF NEW.headers LIKE '%delayed%' THEN DO SLEEP(RAND() * 0.02); END IF; END";

/// What the writers committed: the last number of each key, which are numbered from 1.
type Committed = BTreeMap<String, i64>;

pub(crate) async fn b1_b2_b3_b14_hold_where_published_rows_are_deleted(database: TestDatabase<MySql>) {
    let seed =
        std::env::var("LEASTLOCK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("LEASTLOCK_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    // The product alone: it deletes what the doubles have to read.
    let database = ready(database).await;
    let product = Reading::unhurried(&database.pool, [1, 5, 200][rng.usize(..3)]);
    let mut open = opened(&database).await;
    let committed = written(&database, &mut rng).await;
    assert!(has_all(&product, &committed, PATIENCE).await, "loses or holds back {:?}", missing(&product, &committed));
    open.commit().await.unwrap();
    open = database.pool.begin().await.unwrap();
    let all = with_open(&committed);
    assert!(has_all(&product, &all, PATIENCE).await, "loses {:?}", missing(&product, &all));
    let received = product.received();
    assert_eq!((received.inverted, received.doubled), (vec![], vec![]), "in the order of commits, and once");
    drop(open);

    doubles_are_caught(&mut rng).await;
}

async fn doubles_are_caught(rng: &mut fastrand::Rng) {
    let database = ready(TestDatabase::create().await).await;
    let (by_id, by_event_id) = (by_id_cursor(&database.pool), by_event_id(&database.pool));
    let open = opened(&database).await;
    let committed = written(&database, rng).await;
    let by_locking = by_locking_read(&database.pool);
    assert!(!has_all(&by_locking, &committed, DOUBLES_CHANCE).await, "the double must be seen to stall: locking read");
    drop(by_locking);
    open.commit().await.unwrap();
    let all = with_open(&committed);
    assert!(has_all(&by_event_id, &all, PATIENCE).await, "order by event id loses nothing");
    assert!(!by_event_id.received().inverted.is_empty(), "the double must be seen to turn events round: event id");
    assert!(!has_all(&by_id, &all, DOUBLES_CHANCE).await, "the double must be seen to lose events: id > cursor");

    let database = ready(TestDatabase::create().await).await;
    let by_range = by_range_delete(&database.pool);
    let committed = written(&database, rng).await;
    assert!(
        !has_all(&by_range, &committed, DOUBLES_CHANCE).await,
        "the double must be seen to lose events: id <= last"
    );
}

struct Ready {
    database: TestDatabase<MySql>,
    outbox: Outbox,
}

impl std::ops::Deref for Ready {
    type Target = TestDatabase<MySql>;

    fn deref(&self) -> &Self::Target {
        &self.database
    }
}

async fn ready(database: TestDatabase<MySql>) -> Ready {
    let (database, outbox) = tables(database).await;
    sqlx::raw_sql(DELAY).execute(&database.pool).await.unwrap();
    database.execute("CREATE TABLE item (code VARBINARY(20) PRIMARY KEY, moves BIGINT NOT NULL)").await;
    for key in 0..SHARED_KEYS + usize::try_from(WRITERS).unwrap() {
        sqlx::query("INSERT INTO item VALUES (?, 0)").bind(name(key)).execute(&database.pool).await.unwrap();
    }
    Ready { database, outbox }
}

/// One that writes from before all others until they have ended.
async fn opened(ready: &Ready) -> Transaction<'static, MySql> {
    let mut open = ready.pool.begin().await.unwrap();
    append(&ready.outbox, &mut open, "open", "open:1").await;
    open
}

async fn written(ready: &Ready, rng: &mut fastrand::Rng) -> Committed {
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let writer = Writer { outbox: ready.outbox.clone(), pool: ready.pool.clone(), rng: rng.fork(), number };
            tokio::spawn(writer.write())
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let moves: Vec<(Vec<u8>, i64)> =
        sqlx::query_as("SELECT code, moves FROM item WHERE moves > 0").fetch_all(&ready.pool).await.unwrap();
    moves.into_iter().map(|(code, moves)| (String::from_utf8(code).unwrap(), moves)).collect()
}

fn with_open(committed: &Committed) -> Committed {
    committed.iter().map(|(key, &moves)| (key.clone(), moves)).chain([("open".to_owned(), 1)]).collect()
}

async fn has_all(reading: &Reading, committed: &Committed, limit: Duration) -> bool {
    reading.comes_to(limit, |values| Received::of(values).has_all(committed)).await
}

fn missing(reading: &Reading, committed: &Committed) -> BTreeSet<String> {
    reading.received().missing(committed)
}

struct Writer {
    outbox: Outbox,
    pool: MySqlPool,
    rng: fastrand::Rng,
    number: u64,
}

impl Writer {
    /// Transactions on shared and on separate keys, at either isolation level, with savepoints, rolled back, slow and long.
    async fn write(mut self) {
        for _ in 0..TRANSACTIONS {
            let begin =
                if self.rng.bool() { "START TRANSACTION" } else { <MySql as leastlock_core::Dialect>::BEGIN_WRITE };
            let mut tx = self.pool.begin_with(begin).await.unwrap();
            for key in self.keys() {
                let mut savepoint = tx.begin().await.unwrap();
                self.move_item(&mut savepoint, key).await;
                if self.rng.u8(..5) == 0 {
                    savepoint.rollback().await.unwrap();
                } else {
                    savepoint.commit().await.unwrap();
                }
            }
            match self.rng.u8(..40) {
                0 => self.pause(200_000).await,
                1..10 => self.pause(5_000).await,
                _ => {}
            }
            if self.rng.u8(..6) == 0 { tx.rollback().await.unwrap() } else { tx.commit().await.unwrap() }
        }
    }

    /// In order, so that writers do not deadlock.
    fn keys(&mut self) -> Vec<usize> {
        if self.rng.u8(..3) == 0 {
            return vec![SHARED_KEYS + usize::try_from(self.number).unwrap()];
        }
        let mut keys: Vec<usize> = (0..self.rng.usize(1..=3)).map(|_| self.rng.usize(..SHARED_KEYS)).collect();
        keys.sort_unstable();
        keys
    }

    /// Takes the key's turn, and appends one event or two, each with the number of its move.
    async fn move_item(&mut self, tx: &mut Transaction<'_, MySql>, key: usize) {
        let key = name(key);
        // Made before the turn is taken, which is when the numbers are known.
        let unnumbered: Vec<_> = (0..self.rng.usize(1..=2)).map(|_| Event::new("moves", key.as_str())).collect();
        let lock = "SELECT moves FROM item WHERE code = ? FOR UPDATE";
        let moves: i64 = sqlx::query_scalar(lock).bind(&key).fetch_one(&mut **tx).await.unwrap();
        let events: Vec<_> = unnumbered
            .into_iter()
            .zip(moves + 1..)
            .map(|(event, number)| {
                let event = event.bytes(format!("{key}:{number}"));
                if self.rng.u8(..12) == 0 { event.header("delayed", "") } else { event }
            })
            .collect();
        self.outbox.append_all(tx, &events).await.unwrap();
        let total = moves + i64::try_from(events.len()).unwrap();
        let update = "UPDATE item SET moves = ? WHERE code = ?";
        sqlx::query(update).bind(total).bind(&key).execute(&mut **tx).await.unwrap();
    }

    async fn pause(&mut self, most_us: u64) {
        tokio::time::sleep(Duration::from_micros(self.rng.u64(..most_us))).await;
    }
}

fn name(key: usize) -> String {
    format!("k{key}")
}
