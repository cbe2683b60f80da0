//! What was published stays for the retention, and no longer; what was not published stays.

use std::time::Duration;

use leastlock_core::Engine;
use leastlock_outbox::OutboxSql;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Pool;
use tokio::task::JoinHandle;

use crate::doubles;
use crate::support::{PATIENCE, Recorder, Running, commit, tables, until};

const EVENTS: i64 = 30;
const RETENTION: Duration = Duration::from_secs(1);
const COUNT: &str = "SELECT count(*) FROM leastlock_outbox";

type Double<DB> = fn(&Pool<DB>) -> JoinHandle<()>;

pub(crate) async fn events_go_once_they_have_been_published_for_the_retention<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    judge(database, None, PATIENCE).await.unwrap();
    let doubles: [(Double<DB>, &str); 3] = [
        (doubles::by_age, "before they were published"),
        (doubles::at_once, "too soon"),
        (doubles::never, "stay for ever"),
    ];
    for (double, breach) in doubles {
        let judged = judge(TestDatabase::create().await, Some(double), 4 * RETENTION).await;
        assert!(judged.is_err_and(|why| why.contains(breach)), "the double must be caught: {breach}");
    }
}

/// What is wrong with the way in which events are deleted: the relay's own, or a double's beside one that keeps everything.
async fn judge<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
    double: Option<Double<DB>>,
    patience: Duration,
) -> Result<(), String> {
    let (database, outbox) = tables(database).await;
    let sink = Recorder::shut();
    let relay = Running::with(&database.pool, &sink, |relay| match double {
        None => relay.retention(RETENTION),
        Some(_) => relay.keep_everything(),
    });
    let deleting = double.map(|double| double(&database.pool));
    for number in 0..EVENTS {
        commit(&outbox, &database.pool, &format!("k{}", number % 5), &number.to_string()).await;
    }
    // An outage that lasts longer than the retention.
    let appended = now(&database).await;
    until("the outage has lasted", async || now(&database).await > appended + 2 * millis(RETENTION)).await;
    if database.int(COUNT).await < EVENTS {
        return Err("events went before they were published".into());
    }
    let published = now(&database).await;
    sink.open();
    let gone = async {
        let mut first = None;
        loop {
            let left = database.int(COUNT).await;
            if left < EVENTS && first.is_none() {
                first = Some(now(&database).await);
            }
            if left == 0 {
                return first;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let first = tokio::time::timeout(patience, gone).await;
    if let Some(deleting) = deleting {
        deleting.abort();
    }
    relay.end().await;
    match first {
        Ok(Some(first)) if first < published + millis(RETENTION) => Err("events went too soon".into()),
        Ok(_) => Ok(()),
        Err(_) => Err("events stay for ever".into()),
    }
}

async fn now<DB: TestEngine>(database: &TestDatabase<DB>) -> i64 {
    let now = match DB::ENGINE {
        Engine::Sqlite => "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
        _ => "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint",
    };
    database.int(now).await
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).expect("a few seconds")
}

/// A transaction that was in progress when others, of a later id, were published, and that commits after those have gone.
#[cfg(feature = "postgres")]
pub(crate) async fn event_that_commits_late_goes_too(database: TestDatabase<sqlx::Postgres>) {
    const MARK: &str = "INSERT INTO leastlock_outbox_mark (shard, done) \
                        SELECT min(shard), pg_current_snapshot() FROM leastlock_outbox";
    let (database, outbox) = tables(database).await;
    let sweep = async |from: &str| -> (i64, String) {
        let shard = database.int("SELECT min(shard)::bigint FROM leastlock_outbox").await;
        let sweep = sqlx::query_as(include_str!("../../sql/postgres/sweep.sql"));
        sweep.bind(shard).bind(0_i64).bind(from.to_owned()).bind(100_i64).fetch_one(&database.pool).await.unwrap()
    };
    let mut late = database.pool.begin().await.unwrap();
    outbox.append(&mut late, leastlock_outbox::Event::new("moves", "k").bytes("late")).await.unwrap();
    for value in ["1", "2", "3"] {
        commit(&outbox, &database.pool, "k", value).await;
    }
    database.execute(MARK).await;
    let (deleted, from) = sweep("0").await;
    assert_eq!(deleted, 3);
    commit(&outbox, &database.pool, "k", "4").await;
    late.commit().await.unwrap();
    database.execute(MARK).await;
    assert_eq!(sweep(&from).await.0, 2, "the late one and the new one");
    assert_eq!(database.int(COUNT).await, 0);
}
