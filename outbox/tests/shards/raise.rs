//! More shards, while events are appended and published.

use leastlock_outbox::{Asked, Error, Event, OnRefusal, Outbox, Parked, raise_shards};
use leastlock_testkit::TestDatabase;
use sqlx::{PgPool, Postgres};

use crate::handover::figures;
use crate::support::{BAD, LEASE, Recorder, Running, commit, tables, until};

const KEYS: usize = 40;
const PARKED: &str = "SELECT count(*) FROM leastlock_outbox_parked";

async fn commit_all(outbox: &Outbox, pool: &PgPool, value: &str) {
    for key in 0..KEYS {
        commit(outbox, pool, &format!("k{key}"), value).await;
    }
}

pub(crate) async fn raised_shards_keep_the_order_of_a_key(database: TestDatabase<Postgres>) {
    let (database, outbox) = tables(database).await;
    let pool = &database.pool;
    let sink = Recorder::shut();
    let relay = Running::start(pool, &sink);
    commit_all(&outbox, pool, "1").await;
    sink.comes_to(KEYS).await;
    let old_snapshot = repeatable_read(pool).await;
    raise_shards(pool, 24).await.unwrap();
    refused_at_every_isolation_level(&outbox, pool, old_snapshot).await;
    commit_all(&outbox, pool, "2").await;
    commit_all(&Outbox::open(pool).await.unwrap(), pool, "3").await;
    plain_sql_finds_the_same_shards(pool).await;
    let in_new = database.int("SELECT count(*) FROM leastlock_outbox WHERE shard >= 16").await;
    assert_eq!(in_new, 2 * i64::try_from(KEYS).unwrap());
    let again = raise_shards(pool, 32).await;
    assert!(matches!(again, Err(Error::CannotRaise { .. })), "the old shards are not published: {again:?}");
    assert_eq!(sink.sent().len(), KEYS, "nothing overtakes what has no answer yet");
    sink.open();
    sink.comes_to(3 * KEYS).await;
    relay.end().await;
    for key in 0..KEYS {
        assert_eq!(of_key(&sink, key), ["1", "2", "3"]);
    }
    raise_shards(pool, 32).await.unwrap();

    // The double: new numbers in the same table of shards. They are read at once, before what is in the old ones.
    let (database, outbox) = tables(TestDatabase::create().await).await;
    let (pool, sink) = (&database.pool, Recorder::shut());
    let relay = Running::with(pool, &sink, |relay| relay.in_flight(1));
    commit_all(&outbox, pool, "1").await;
    database.execute("INSERT INTO leastlock_outbox_shard (shard) SELECT generate_series(16, 23)").await;
    let other = Recorder::new();
    let second = Running::start(pool, &other);
    commit_all(&Outbox::open(pool).await.unwrap(), pool, "2").await;
    until("the double turns a key round", async || {
        (0..KEYS).any(|key| of_key(&sink, key).is_empty() && of_key(&other, key) == ["2"])
    })
    .await;
    sink.open();
    for relay in [relay, second] {
        relay.end().await;
    }
}

fn of_key(sink: &Recorder, key: usize) -> Vec<String> {
    let key = format!("k{key}");
    sink.sent().into_iter().filter(|(other, _)| *other == key).map(|(_, value)| value).collect()
}

/// A transaction whose snapshot is of before the raise, and which has not appended yet.
async fn repeatable_read(pool: &PgPool) -> sqlx::Transaction<'static, Postgres> {
    let mut tx = pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    sqlx::query("SELECT 1 FROM leastlock_outbox_relay").execute(&mut *tx).await.unwrap();
    tx
}

/// The function for services in other languages, rolled back again.
async fn plain_sql_finds_the_same_shards(pool: &PgPool) {
    let mut tx = pool.begin().await.unwrap();
    let append = "SELECT leastlock_outbox_append('moves', convert_to('k' || n, 'UTF8'), 'by SQL') \
                  FROM generate_series(0, 39) AS n";
    sqlx::query(append).execute(&mut *tx).await.unwrap();
    let same = "SELECT count(*) FROM leastlock_outbox AS a JOIN leastlock_outbox AS b USING (key, shard) \
                WHERE a.value = 'by SQL' AND b.value = '3'";
    let same: i64 = sqlx::query_scalar(same).fetch_one(&mut *tx).await.unwrap();
    assert_eq!(same, i64::try_from(KEYS).unwrap());
    tx.rollback().await.unwrap();
}

async fn refused_at_every_isolation_level(
    outbox: &Outbox,
    pool: &PgPool,
    mut old_snapshot: sqlx::Transaction<'static, Postgres>,
) {
    let event = || Event::new("moves", "k0").bytes("refused");
    let refused = outbox.append(&mut old_snapshot, event()).await;
    assert!(matches!(refused, Err(Error::ShardsRaised)), "{refused:?}");
    old_snapshot.rollback().await.unwrap();
    // It knows better now; by the old numbers plain SQL is refused as well.
    let mut tx = pool.begin().await.unwrap();
    outbox.append(&mut tx, event()).await.unwrap();
    tx.rollback().await.unwrap();
    let insert = "INSERT INTO leastlock_outbox (shard, event_id, topic) VALUES (3, gen_random_uuid(), 't')";
    let refused = sqlx::query(insert).execute(pool).await.unwrap_err();
    assert_eq!(refused.as_database_error().and_then(|error| error.constraint()), Some("leastlock_outbox_active"));
}

/// Nothing is appended to the old shards: a relay that held those only would have no work.
pub(crate) async fn raised_shards_are_shared_apart_from_the_old_ones(database: TestDatabase<Postgres>) {
    let (database, _outbox) = tables(database).await;
    let (pool, sink) = (&database.pool, Recorder::new());
    let held = async |retired: bool| {
        let (old, new) = (
            "SELECT count(*) FROM leastlock_outbox_shard WHERE lease_until > clock_timestamp() AND retired \
             GROUP BY owner ORDER BY count(*)",
            "SELECT count(*) FROM leastlock_outbox_shard WHERE lease_until > clock_timestamp() AND NOT retired \
             GROUP BY owner ORDER BY count(*)",
        );
        figures(pool, if retired { old } else { new }).await
    };
    let first = Running::start(pool, &sink);
    until("the first relay holds all", async || held(false).await == [16]).await;
    raise_shards(pool, 32).await.unwrap();
    until("and all new ones", async || held(true).await == [16] && held(false).await == [32]).await;
    let second = Running::start(pool, &sink);
    until("the second has half of each", async || held(true).await == [8, 8] && held(false).await == [16, 16]).await;
    let third = Running::start(pool, &sink);
    let thirds = async || held(true).await == [5, 5, 6] && held(false).await == [10, 11, 11];
    until("the third has a third of each", thirds).await;
    for relay in [first, second, third] {
        relay.end().await;
    }
}

/// What is appended after a raise does not overtake what is parked from before it.
pub(crate) async fn raised_shards_wait_for_what_is_parked(database: TestDatabase<Postgres>) {
    let (database, outbox) = tables(database).await;
    let pool = &database.pool;
    let mut tx = pool.begin().await.unwrap();
    let bad = outbox.append(&mut tx, Event::new("moves", "k").bytes(BAD)).await.unwrap();
    tx.commit().await.unwrap();
    raise_shards(pool, 24).await.unwrap();
    commit(&Outbox::open(pool).await.unwrap(), pool, "k", "later").await;
    let sink = Recorder::new();
    let relay = Running::start(pool, &sink);
    until("it is parked", async || database.int(PARKED).await == 1).await;
    for _ in 0..4 {
        let seen = "SELECT (extract(epoch FROM min(seen_until)) * 1000)::bigint FROM leastlock_outbox_relay";
        let before = database.int(seen).await;
        until("the relay has looked again", async || database.int(seen).await > before).await;
    }
    assert_eq!(sink.sent(), []);
    let skipped = Parked::of(pool).skip(bad, "ann", "it is bad").await.unwrap();
    assert!(matches!(skipped, Asked::Done { .. }), "{skipped:?}");
    sink.comes_to(1).await;
    assert_eq!(sink.values(), ["later"]);
    relay.end().await;
}

/// An event without a key, and one that its policy skips; there is no order that they could break.
pub(crate) async fn raised_shards_do_not_wait_for_what_blocks_nothing(database: TestDatabase<Postgres>) {
    let (database, outbox) = tables(database).await;
    let pool = &database.pool;
    let mut tx = pool.begin().await.unwrap();
    outbox.append(&mut tx, Event::without_key("moves").bytes(BAD)).await.unwrap();
    outbox.append(&mut tx, Event::new("skipped", "k").bytes(BAD)).await.unwrap();
    tx.commit().await.unwrap();
    raise_shards(pool, 24).await.unwrap();
    commit(&Outbox::open(pool).await.unwrap(), pool, "k", "later").await;
    let sink = Recorder::new();
    let relay = Running::with(pool, &sink, |relay| relay.on_refusal_in("skipped", OnRefusal::ParkAlone));
    sink.comes_to(1).await;
    assert_eq!((sink.values(), database.int(PARKED).await), (vec!["later".to_owned()], 2));
    relay.end().await;
    raise_shards(pool, 32).await.unwrap();
}

pub(crate) async fn raise_is_refused_where_it_would_break_something(database: TestDatabase<Postgres>) {
    let (database, outbox) = tables(database).await;
    for (shards, because) in [(16, "as many already"), (1_025, "the most")] {
        let refused = raise_shards(&database.pool, shards).await.unwrap_err();
        assert!(refused.to_string().contains(because), "{refused}");
    }
    commit(&outbox, &database.pool, "k", BAD).await;
    let relay = Running::start(&database.pool, &Recorder::new());
    until("it is parked", async || database.int(PARKED).await == 1).await;
    relay.end().await;
    let refused = raise_shards(&database.pool, 32).await.unwrap_err();
    assert!(refused.to_string().contains("parked"), "{refused}");
    assert_eq!(database.int("SELECT count(*) FROM leastlock_outbox_shard").await, 16);
}

const RAISE_WAITS: &str = "SELECT count(*) FROM pg_locks WHERE relation = 'leastlock_outbox'::regclass \
                           AND mode = 'AccessExclusiveLock' AND NOT granted";

pub(crate) async fn raise_that_waits_for_a_writer_stops_no_other(database: TestDatabase<Postgres>) {
    let (database, outbox) = tables(database).await;
    let pool = database.pool.clone();
    let mut open = pool.begin().await.unwrap();
    outbox.append(&mut open, Event::new("moves", "k").bytes("open")).await.unwrap();
    let raising = tokio::spawn(async move { raise_shards(&pool, 24).await });
    for number in 0..3 {
        until("the raise waits", async || database.int(RAISE_WAITS).await == 1).await;
        commit(&outbox, &database.pool, "other", &number.to_string()).await;
    }
    assert!(!raising.is_finished());
    open.commit().await.unwrap();
    raising.await.unwrap().unwrap();
    assert_eq!(database.int("SELECT count(*) FROM leastlock_outbox_shard WHERE NOT retired").await, 24);
}

/// Whoever changes the table may hold it longer than a lease.
pub(crate) async fn leases_are_kept_while_the_log_is_locked(database: TestDatabase<Postgres>) {
    let (database, outbox) = tables(database).await;
    let sink = Recorder::new();
    let relay = Running::with(&database.pool, &sink, |relay| relay.lease(4 * LEASE));
    commit(&outbox, &database.pool, "k", "1").await;
    sink.comes_to(1).await;
    database.execute("CREATE TABLE began AS SELECT clock_timestamp() AS at").await;
    let mut lock = database.pool.begin().await.unwrap();
    sqlx::query("LOCK TABLE leastlock_outbox IN ACCESS EXCLUSIVE MODE").execute(&mut *lock).await.unwrap();
    let over = "SELECT count(*) FROM leastlock_outbox_shard \
                WHERE owner IS NULL OR lease_until < clock_timestamp() + interval '1 second'";
    let long_since = "SELECT count(*) FROM began WHERE clock_timestamp() > at + interval '7 seconds'";
    until("the lock lasts longer than a lease", async || {
        assert_eq!(database.int(over).await, 0, "the log's lock must end no lease");
        database.int(long_since).await == 1
    })
    .await;
    lock.rollback().await.unwrap();
    commit(&outbox, &database.pool, "k", "2").await;
    until("it goes on", async || sink.values().contains(&"2".to_owned())).await;
    relay.end().await;
}
