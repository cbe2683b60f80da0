//! A snapshot of MariaDB's may show a transaction and not one that was committed before it: the open transactions are collected one
//! after the other while others commit. A reader that hands out what one snapshot shows turns a key round.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use leastlock_outbox::{MemorySink, Relay};
use leastlock_testkit::TestDatabase;
use sqlx::{AssertSqlSafe, Connection, MySql, MySqlConnection, Row};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const WRITERS: u32 = 12;
/// Readers that make the mistake: it takes some thousand snapshots to meet one that is torn.
const DOUBLES: usize = 3;
/// How long that is waited for; some seconds are usual.
const CHANCE: Duration = Duration::from_mins(5);
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) async fn torn_snapshot_turns_no_key_round(database: TestDatabase<MySql>) {
    let crowd = Crowd::write(&database).await;
    let turned = Arc::<AtomicBool>::default();
    let doubles: Vec<_> =
        (0..DOUBLES).map(|_| tokio::spawn(by_one_read(database.url.clone(), turned.clone()))).collect();
    let started = Instant::now();
    while !turned.load(Ordering::SeqCst) {
        assert!(started.elapsed() < CHANCE, "the doubles must be seen to turn the key round");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let needed = crowd.end().await;
    for double in doubles {
        double.await.unwrap();
    }

    let database = TestDatabase::create().await;
    let crowd = Crowd::write(&database).await;
    let (sink, shutdown) = (MemorySink::default(), CancellationToken::new());
    let relay = Relay::builder(&database.pool, sink.clone()).lease(PATIENCE).build().unwrap();
    let running = tokio::spawn(relay.run(shutdown.clone()));
    while crowd.written() < needed {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let written = usize::try_from(crowd.end().await).unwrap();
    let published = tokio::time::timeout(PATIENCE, sink.wait_for(written)).await.expect("nothing is lost");
    shutdown.cancel();
    running.await.unwrap().unwrap();
    let numbers: Vec<usize> = published.iter().map(|event| number(event.value.as_deref())).collect();
    assert!(numbers.iter().copied().eq(1..=written), "in the order of commits, and once");
}

/// The double: hands out whatever one snapshot shows and was not seen, in the order of the ids. Ends when some double has turned the
/// key round.
async fn by_one_read(url: String, turned: Arc<AtomicBool>) {
    let read = "SELECT id, value FROM leastlock_outbox ORDER BY id DESC LIMIT 100";
    let mut connection = MySqlConnection::connect(&url).await.unwrap();
    let (mut seen, mut last) = (HashSet::<i64>::new(), 0);
    while !turned.load(Ordering::SeqCst) {
        for row in sqlx::query(read).fetch_all(&mut connection).await.unwrap().into_iter().rev() {
            if seen.insert(row.get(0)) {
                let next = number(row.get::<Option<&[u8]>, _>(1));
                if next < last {
                    turned.store(true, Ordering::SeqCst);
                }
                last = last.max(next);
            }
        }
    }
}

fn number(value: Option<&[u8]>) -> usize {
    str::from_utf8(value.expect("a value")).expect("text").parse().expect("a number")
}

/// Writers that take turns at one key, as fast as they can.
struct Crowd {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicI64>,
    writers: Vec<JoinHandle<()>>,
}

impl Crowd {
    async fn write(database: &TestDatabase<MySql>) -> Self {
        leastlock_outbox::MIGRATIONS.run(&database.pool).await.unwrap();
        database.execute("CREATE TABLE item (code INT PRIMARY KEY, moves BIGINT NOT NULL)").await;
        for code in 0..=WRITERS {
            sqlx::query("INSERT INTO item VALUES (?, 0)").bind(code).execute(&database.pool).await.unwrap();
        }
        let (stop, written) = (Arc::<AtomicBool>::default(), Arc::<AtomicI64>::default());
        let mut writers = Vec::new();
        for writer in 1..=WRITERS {
            let (stop, written) = (stop.clone(), written.clone());
            let mut connection = MySqlConnection::connect(&database.url).await.unwrap();
            // One message, so that nothing but the server's own pace lies between two turns. The first update draws the transaction's id,
            // before its turn comes: a transaction that is younger than the snapshot is never shown.
            let turn = format!(
                "START TRANSACTION; UPDATE item SET moves = moves + 1 WHERE code = {writer}; \
                 UPDATE item SET moves = (@moves := moves + 1) WHERE code = 0; \
                 INSERT INTO leastlock_outbox (shard, event_id, topic, `key`, value) \
                 VALUES (0, UUID(), 'moves', 'k', @moves); COMMIT"
            );
            writers.push(tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    sqlx::raw_sql(AssertSqlSafe(turn.clone())).execute(&mut connection).await.unwrap();
                    written.fetch_add(1, Ordering::SeqCst);
                }
            }));
        }
        Self { stop, written, writers }
    }

    fn written(&self) -> i64 {
        self.written.load(Ordering::SeqCst)
    }

    /// Stops them; answers how many events there are.
    async fn end(self) -> i64 {
        self.stop.store(true, Ordering::SeqCst);
        for writer in self.writers {
            writer.await.unwrap();
        }
        self.written.load(Ordering::SeqCst)
    }
}
