//! Several relays: each is given its share, and nothing is handed over half-sent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leastlock_core::Statement;
use leastlock_outbox::{Outbox, OutboxSql};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Pool;

use crate::support::{LEASE, Recorder, Running, commit, tables, until};

const KEYS: usize = 24;

/// How many shards each relay holds, in order.
pub(crate) async fn shares<DB: TestEngine>(pool: &Pool<DB>) -> Vec<i64> {
    let shares = sql::<DB>(
        "SELECT count(*) FROM leastlock_outbox_shard WHERE lease_until > clock_timestamp() GROUP BY owner ORDER BY count(*)",
        "SELECT count(*) FROM leastlock_outbox_shard WHERE lease_until > UTC_TIMESTAMP(6) GROUP BY owner ORDER BY count(*)",
    );
    figures(pool, shares).await
}

/// The first column of every row.
pub(crate) async fn figures<DB: TestEngine>(pool: &Pool<DB>, shares: &'static str) -> Vec<i64> {
    let mut connection = pool.acquire().await.unwrap();
    let rows = Statement::new(shares).fetch_all::<DB>(&mut connection).await.unwrap();
    rows.iter().map(|row| row.int(0).unwrap()).collect()
}

/// Appends k:0, k:1, … for each key until `stop`; answers how many of each.
async fn write<DB: TestEngine + OutboxSql>(outbox: Outbox, pool: Pool<DB>, stop: Arc<AtomicBool>) -> usize {
    let mut rounds = 0;
    while !stop.load(Ordering::SeqCst) {
        for key in 0..KEYS {
            commit(&outbox, &pool, &format!("k{key}"), &rounds.to_string()).await;
        }
        rounds += 1;
    }
    rounds
}

fn per_key(sent: Vec<(String, String)>) -> BTreeMap<String, Vec<usize>> {
    let mut keys = BTreeMap::<String, Vec<usize>>::new();
    for (key, value) in sent {
        keys.entry(key).or_default().push(value.parse().unwrap());
    }
    keys
}

pub(crate) async fn joining_relay_is_given_its_share_and_nothing_is_published_twice<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (database, outbox) = tables(database).await;
    let pool = &database.pool;
    let (sink, stop) = (Recorder::new(), Arc::new(AtomicBool::new(false)));
    let writer = tokio::spawn(write(outbox, pool.clone(), stop.clone()));
    let first = Running::start(pool, &sink);
    until("the first relay holds all", async || shares(pool).await == [16]).await;
    let second = Running::start(pool, &sink);
    until("the second is given its half", async || shares(pool).await == [8, 8]).await;
    let third = Running::start(pool, &sink);
    until("the third is given its third", async || shares(pool).await == [5, 5, 6]).await;
    first.end().await;
    until("the two others share what the first held", async || shares(pool).await == [8, 8]).await;
    stop.store(true, Ordering::SeqCst);
    let rounds = writer.await.unwrap();
    sink.comes_to(rounds * KEYS).await;
    for relay in [second, third] {
        relay.end().await;
    }
    let expected: Vec<usize> = (0..rounds).collect();
    for (key, numbers) in per_key(sink.sent()) {
        assert_eq!(numbers, expected, "{key}: in order, each once");
    }
}

pub(crate) async fn shard_is_not_handed_over_while_something_of_it_is_on_its_way<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    assert_eq!(sent_twice(database, false).await, 0);
    assert!(sent_twice(TestDatabase::<DB>::create().await, true).await > 0, "the double must be seen to send twice");
}

/// A relay joins while another waits for the answers to all that it has sent. The double frees its shards there and then. Answers how
/// many events were sent a second time.
async fn sent_twice<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>, undrained: bool) -> usize {
    let (database, outbox) = tables(database).await;
    let pool = &database.pool;
    for key in 0..KEYS {
        for number in 0..5 {
            commit(&outbox, pool, &format!("k{key}"), &number.to_string()).await;
        }
    }
    let (waiting, joining) = (Recorder::shut(), Recorder::new());
    // Longer than the looks below take: after a lease without an answer they are handed over all the same.
    let first = Running::with(pool, &waiting, |relay| relay.lease(4 * LEASE));
    waiting.comes_to(KEYS * 5).await;
    let second = Running::start(pool, &joining);
    until("the second is there", async || database.int("SELECT count(*) FROM leastlock_outbox_relay").await == 2).await;
    if undrained {
        database.execute("UPDATE leastlock_outbox_shard SET owner = NULL, lease_until = NULL WHERE shard >= 8").await;
        until("the second holds something", async || shares(pool).await.len() == 2).await;
        until("it has sent something", async || !joining.sent().is_empty()).await;
    } else {
        // The first relay looks several times, and knows of the second.
        for _ in 0..4 {
            let seen = sql::<DB>(
                "SELECT (extract(epoch FROM min(seen_until)) * 1000)::bigint FROM leastlock_outbox_relay",
                "SELECT TIMESTAMPDIFF(MICROSECOND, '2000-01-01', min(seen_until)) DIV 1000 FROM leastlock_outbox_relay",
            );
            let before = database.int(seen).await;
            until("both have looked again", async || database.int(seen).await > before).await;
        }
        // It gives up what nothing was sent of, if there is such, and keeps the rest.
        assert_eq!(joining.sent(), []);
    }
    waiting.open();
    until("each has its half", async || shares(pool).await == [8, 8]).await;
    for relay in [first, second] {
        relay.end().await;
    }
    waiting.sent().len() + joining.sent().len() - KEYS * 5
}

/// A partition without a leader must keep no relay from its share for ever.
pub(crate) async fn shard_whose_events_get_no_answer_is_handed_over_after_a_lease<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (database, outbox) = tables(database).await;
    let pool = &database.pool;
    for key in 0..KEYS {
        for number in 0..5 {
            commit(&outbox, pool, &format!("k{key}"), &number.to_string()).await;
        }
    }
    let (silent, joining) = (Recorder::shut(), Recorder::new());
    let first = Running::start(pool, &silent);
    silent.comes_to(KEYS * 5).await;
    let second = Running::start(pool, &joining);
    until("each has its half", async || shares(pool).await == [8, 8]).await;
    let in_order: Vec<usize> = (0..5).collect();
    // The keys of its half, from the first event on: none of them was noted.
    let whole = |sink: &Recorder| per_key(sink.sent()).into_values().filter(|numbers| *numbers == in_order).count();
    until("the second has published its half", async || whole(&joining) > 0).await;
    first.kill();
    until("and at last all", async || whole(&joining) == KEYS).await;
    second.end().await;
}

pub(crate) async fn relay_that_ends_leaves_its_share_at_once<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let (database, _outbox) = tables(database).await;
    let sink = Recorder::new();
    // With so long a lease nothing is free because one is over.
    let long = |relay: leastlock_outbox::RelayBuilder<_, _>| relay.lease(std::time::Duration::from_mins(10));
    let (first, second) = (Running::with(&database.pool, &sink, long), Running::with(&database.pool, &sink, long));
    until("each has its half", async || shares(&database.pool).await == [8, 8]).await;
    first.end().await;
    assert_eq!(database.int("SELECT count(*) FROM leastlock_outbox_relay").await, 1);
    until("the other holds all", async || shares(&database.pool).await == [16]).await;
    second.end().await;
    assert_eq!(shares(&database.pool).await, [0; 0]);
}
