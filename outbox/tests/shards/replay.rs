//! Events that are still in the log, published once more.

use std::time::{Duration, SystemTime};

use leastlock_outbox::{Event, MemorySink, Relay, Replay, ReplaySql};
use leastlock_testkit::{TestDatabase, TestEngine};
use tokio_util::sync::CancellationToken;

use crate::support::{LEASE, PATIENCE, tables};

pub(crate) async fn events_are_replayed_by_time_topic_and_id<DB: TestEngine + ReplaySql>(database: TestDatabase<DB>) {
    let (database, outbox) = tables(database).await;
    let commit = async |topic: &str, value: &str| {
        let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
        let event = Event::new(topic, "k").bytes(value).header("h", "1");
        let id = outbox.append(&mut tx, event).await.unwrap();
        tx.commit().await.unwrap();
        id
    };
    let first = commit("a", "1").await;
    commit("b", "2").await;
    // Times are stored in milliseconds.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let since = SystemTime::now();
    tokio::time::sleep(Duration::from_millis(20)).await;
    commit("a", "3").await;
    commit("b", "4").await;
    assert_eq!(outbox.replay(&database.pool, &Replay::since(since)).await.unwrap(), 0, "they leave anyway");

    let (sink, shutdown) = (MemorySink::default(), CancellationToken::new());
    let running = || {
        tokio::spawn(Relay::builder(&database.pool, sink.clone()).lease(LEASE).build().unwrap().run(shutdown.clone()))
    };
    let relay = running();
    let published =
        async |count| tokio::time::timeout(PATIENCE, sink.wait_for(count)).await.expect("they are published");
    let originals = published(4).await;
    let replayed = async |replay: Replay, after: usize| {
        // What was published counts once that is noted.
        let replayed = async {
            loop {
                match outbox.replay(&database.pool, &replay).await.unwrap() {
                    0 => tokio::time::sleep(Duration::from_millis(20)).await,
                    count => return usize::try_from(count).unwrap(),
                }
            }
        };
        let count = tokio::time::timeout(PATIENCE, replayed).await.expect("something is replayed");
        published(after + count).await.split_off(after)
    };

    let of_topic = replayed(Replay::since(since).topic("a"), 4).await;
    assert_eq!(of_topic.len(), 1);
    let third = originals.iter().find(|event| event.value.as_deref() == Some(b"3")).unwrap();
    assert_eq!(of_topic[0].event_id, third.event_id, "a repeat can be told by its id");
    assert_eq!((&of_topic[0].headers, &of_topic[0].key), (&third.headers, &third.key));

    let one = replayed(Replay::event(first), 5).await;
    assert_eq!(one.iter().map(|event| event.event_id).collect::<Vec<_>>(), [first]);

    shutdown.cancel();
    relay.await.unwrap().unwrap();
    // Every original of that time, and the two copies: all of them were published.
    assert_eq!(outbox.replay(&database.pool, &Replay::since(SystemTime::UNIX_EPOCH)).await.unwrap(), 6);
}

/// An event can take a megabyte, and a batch is in memory as a whole.
#[cfg(feature = "postgres")]
pub(crate) async fn replay_copies_few_events_at_a_time(database: TestDatabase<sqlx::Postgres>) {
    use crate::support::{Recorder, Running, until};

    let (database, outbox) = tables(database).await;
    let mut tx = database.pool.begin().await.unwrap();
    let events: Vec<_> = (0..120).map(|number| Event::new("a", "k").bytes(number.to_string())).collect();
    outbox.append_all(&mut tx, &events).await.unwrap();
    tx.commit().await.unwrap();
    let relay = Running::start(&database.pool, &Recorder::new());
    let unnoted = "SELECT count(*) FROM leastlock_outbox AS o JOIN leastlock_outbox_shard AS s USING (shard) \
                   WHERE NOT pg_visible_in_snapshot(o.xid, s.done)";
    until("all are noted", async || database.int(unnoted).await == 0).await;
    relay.end().await;
    let all = Replay::since(SystemTime::UNIX_EPOCH);
    assert_eq!(outbox.replay(&database.pool, &all).await.unwrap(), 120);
    let transactions = database.int("SELECT count(DISTINCT xid) FROM leastlock_outbox").await;
    assert_eq!(transactions, 1 + 3, "the first append, and copies by 50");
}
