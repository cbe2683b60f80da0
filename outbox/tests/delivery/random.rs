//! What DESIGN says of readers, under random concurrent transactions: the product loses, doubles, turns round and holds back
//! nothing; each of three readers that were made in public does one of these. PostgreSQL only: elsewhere one writer at a time
//! leaves nothing to chance.

use std::collections::BTreeMap;
use std::time::Duration;

use leastlock_outbox::{Event, Outbox};
use leastlock_testkit::TestDatabase;
use sqlx::{Connection, PgPool, Postgres, Transaction};

use crate::doubles::{UNTIL_OTHERS_END, by_id_cursor, by_visible_horizon, by_xid_order};
use crate::readers::{PATIENCE, Reading, Received, append, tables};

const WRITERS: u64 = 8;
const TRANSACTIONS: usize = 100;
/// Keys that all writers share, and one more for each that is its own.
const SHARED_KEYS: usize = 6;
/// How long a delivery that a double withholds is waited for; only the double's proof depends on it.
const DOUBLES_CHANCE: Duration = Duration::from_secs(1);

/// A row's value decides how long it stays invisible after its id is drawn.
const DELAY: [&str; 2] = [
    "CREATE FUNCTION delay() RETURNS trigger LANGUAGE plpgsql AS \
     $$ BEGIN PERFORM pg_sleep(random() * 0.02); RETURN NEW; END $$",
    "CREATE TRIGGER delay BEFORE INSERT ON leastlock_outbox FOR EACH ROW \
     WHEN (NEW.headers LIKE '%delayed%') EXECUTE FUNCTION delay()",
];

pub(crate) async fn b1_b2_b3_b14_hold_under_random_transactions(database: TestDatabase<Postgres>) {
    let seed =
        std::env::var("LEASTLOCK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("LEASTLOCK_SEED={seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    let (database, outbox) = tables(database).await;
    for sql in DELAY {
        database.execute(sql).await;
    }
    database.execute("CREATE TABLE item (key text PRIMARY KEY, moves bigint NOT NULL)").await;
    for key in 0..SHARED_KEYS + usize::try_from(WRITERS).unwrap() {
        sqlx::query("INSERT INTO item VALUES ($1, 0)").bind(name(key)).execute(&database.pool).await.unwrap();
    }
    // Pages of a few events and of many: windows that are paged, and windows that are not.
    let product = Reading::unhurried(&database.pool, [1, 5, 200][rng.usize(..3)]);
    let (by_cursor, by_xid) = (by_id_cursor(&database.pool), by_xid_order(&database.pool));
    let by_horizon = by_visible_horizon(&database.pool);

    // One that writes from before all others until they have ended.
    let mut open = database.pool.begin().await.unwrap();
    append(&outbox, &mut open, "open", "open:1").await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let writer =
                Writer { outbox: outbox.clone(), pool: database.pool.clone(), rng: rng.fork(), number: writer };
            tokio::spawn(writer.write())
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }

    let mut committed: BTreeMap<String, i64> = sqlx::query_as("SELECT key, moves FROM item WHERE moves > 0")
        .fetch_all(&database.pool)
        .await
        .unwrap()
        .into_iter()
        .collect();
    let holds_back = |reading: &Reading| !reading.received().has_all(&committed);
    let comes = product.comes_to(PATIENCE, |values| Received::of(values).has_all(&committed)).await;
    assert!(comes, "the product loses or holds back: {:?}", product.received().missing(&committed));
    let comes = by_horizon.comes_to(DOUBLES_CHANCE, |values| Received::of(values).has_all(&committed)).await;
    assert!(!comes && holds_back(&by_horizon), "the double must be seen to stall: xid < xmin");
    open.commit().await.unwrap();

    committed.insert("open".to_owned(), 1);
    for (reading, what, patience) in [
        (&product, "the product", PATIENCE),
        (&by_xid, "order by xid", PATIENCE),
        (&by_horizon, "xid < xmin", UNTIL_OTHERS_END),
    ] {
        let comes = reading.comes_to(patience, |values| Received::of(values).has_all(&committed)).await;
        assert!(comes, "{what} loses {:?}", reading.received().missing(&committed));
    }
    let received = product.received();
    assert_eq!((received.inverted, received.doubled), (vec![], vec![]), "in the order of commits, and once");
    assert!(!by_xid.received().inverted.is_empty(), "the double must be seen to turn events round: order by xid");
    assert!(!by_cursor.comes_to(DOUBLES_CHANCE, |values| Received::of(values).has_all(&committed)).await);
    assert!(
        !by_cursor.received().missing(&committed).is_empty(),
        "the double must be seen to lose events: id > cursor"
    );
}

/// The ways to take a key's turn before an event of it is appended. Each key has one: they do not exclude each other.
#[derive(Debug, Clone, Copy)]
enum Turn {
    Update,
    ForNoKeyUpdate,
    ForUpdate,
    Advisory,
}

impl Turn {
    fn of(key: usize) -> Self {
        [Self::Update, Self::ForNoKeyUpdate, Self::ForUpdate, Self::Advisory][key % 4]
    }

    /// Takes the key's turn, and answers how often it was moved before.
    async fn take(self, tx: &mut Transaction<'_, Postgres>, key: &str) -> i64 {
        let sql = match self {
            Self::Update => "UPDATE item SET moves = moves WHERE key = $1 RETURNING moves",
            Self::ForNoKeyUpdate => "SELECT moves FROM item WHERE key = $1 FOR NO KEY UPDATE",
            Self::ForUpdate => "SELECT moves FROM item WHERE key = $1 FOR UPDATE",
            Self::Advisory => {
                let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
                sqlx::query(lock).bind(key).execute(&mut **tx).await.unwrap();
                "SELECT moves FROM item WHERE key = $1"
            }
        };
        sqlx::query_scalar(sql).bind(key).fetch_one(&mut **tx).await.unwrap()
    }
}

struct Writer {
    outbox: Outbox,
    pool: PgPool,
    rng: fastrand::Rng,
    number: u64,
}

impl Writer {
    /// Transactions on shared and on separate keys, with savepoints, rolled back, slow and long.
    async fn write(mut self) {
        for _ in 0..TRANSACTIONS {
            let mut tx = self.pool.begin().await.unwrap();
            if self.rng.bool() {
                // A transaction id drawn early, so that older transactions commit last.
                sqlx::query("SELECT pg_current_xact_id()::text").execute(&mut *tx).await.unwrap();
                self.pause(3_000).await;
            }
            for key in self.keys() {
                let mut savepoint = tx.begin().await.unwrap();
                self.move_item(&mut savepoint, key).await;
                let is_lost = self.rng.u8(..5) == 0;
                if is_lost { savepoint.rollback().await } else { savepoint.commit().await }.unwrap();
            }
            match self.rng.u8(..40) {
                0 => self.pause(200_000).await,
                1..10 => self.pause(5_000).await,
                _ => {}
            }
            let is_lost = self.rng.u8(..6) == 0;
            if is_lost { tx.rollback().await } else { tx.commit().await }.unwrap();
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

    /// Takes the key's turn, and appends an event that carries the number of the move; the move itself comes after.
    async fn move_item(&mut self, tx: &mut Transaction<'_, Postgres>, key: usize) {
        let (turn, key) = (Turn::of(key), name(key));
        let number = turn.take(tx, &key).await + 1;
        let mut event = Event::new("moves", key.as_str()).bytes(format!("{key}:{number}"));
        if self.rng.u8(..12) == 0 {
            event = event.header("delayed", "");
        }
        self.outbox.append(tx, event).await.unwrap();
        sqlx::query("UPDATE item SET moves = $1 WHERE key = $2")
            .bind(number)
            .bind(&key)
            .execute(&mut **tx)
            .await
            .unwrap();
    }

    async fn pause(&mut self, most_us: u64) {
        tokio::time::sleep(Duration::from_micros(self.rng.u64(..most_us))).await;
    }
}

fn name(key: usize) -> String {
    format!("k{key}")
}
