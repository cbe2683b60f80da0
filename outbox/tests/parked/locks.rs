//! In which order queues are locked, on PostgreSQL.

use leastlock_core::Statement;
use leastlock_outbox::{Event, OnRefusal, Relay};
use leastlock_testkit::TestDatabase;
use sqlx::Postgres;

use crate::world::{Picky, Refuses, Running, TOPIC, World, until};

/// Two blocked keys of two shards, the later shard's queue being the first by name, and the free keys of both shards.
struct Pair {
    blocked: [String; 2],
    queues: [String; 2],
    free: [String; 2],
    first_shard: i64,
}

impl Pair {
    /// Of keys `k…`, which are blocked, and `f…`, which are not.
    async fn find(world: &World<Postgres>) -> Self {
        let find = "SELECT a.key, b.key, a.queue, b.queue, fa.key, fb.key, a.shard::bigint \
             FROM leastlock_outbox_parked_queue AS a \
             JOIN leastlock_outbox_parked_queue AS b ON a.shard < b.shard AND a.queue > b.queue \
             JOIN leastlock_outbox AS fa ON fa.shard = a.shard AND convert_from(fa.key, 'UTF8') LIKE 'f%' \
             JOIN leastlock_outbox AS fb ON fb.shard = b.shard AND convert_from(fb.key, 'UTF8') LIKE 'f%' \
             LIMIT 1";
        let mut connection = world.database.pool.acquire().await.unwrap();
        let row = Statement::new(find).fetch_one::<Postgres>(&mut connection).await.unwrap();
        let key = |column| String::from_utf8(row.bytes(column).unwrap()).unwrap();
        Self {
            blocked: [key(0), key(1)],
            queues: [row.text(2).unwrap(), row.text(3).unwrap()],
            free: [key(4), key(5)],
            first_shard: row.int(6).unwrap(),
        }
    }
}

/// Waits until somebody else's statement with this text waits for a lock.
async fn until_waiting(world: &World<Postgres>, text: &str) {
    let waiting = "SELECT count(*) FROM pg_stat_activity \
         WHERE datname = current_database() AND wait_event_type = 'Lock' AND strpos(query, $1) > 0";
    let waits = async || {
        let mut connection = world.database.pool.acquire().await.unwrap();
        let row = Statement::new(waiting).bind(text).fetch_one::<Postgres>(&mut connection).await.unwrap();
        row.int(0).unwrap() > 0
    };
    leastlock_testkit::until("the relay waits for a lock", crate::world::PATIENCE, waits).await;
}

/// An operator who locks several queues does so by name over all shards (`parked_ask_topic.sql`). If a note locked them shard by
/// shard, each could hold what the other waits for.
pub(crate) async fn note_locks_the_queues_of_all_its_shards_in_the_order_of_their_names(
    database: TestDatabase<Postgres>,
) {
    let world = World::new(database).await;
    let keys = |letter: char, count: usize| (0..count).map(move |number| format!("{letter}{number}"));
    let sink = Picky::new(Refuses::Beforehand, &["bad"]);
    // So long a lease that no renewal comes between.
    let relay = Relay::builder(&world.database.pool, sink.clone()).lease(std::time::Duration::from_mins(10));
    let relay = Running::start(relay.on_refusal(OnRefusal::BlockKey).woken_by(world.outbox.wake()).build().unwrap());
    for key in keys('k', 16) {
        world.commit(&key, "bad").await;
    }
    for key in keys('f', 64) {
        world.commit(&key, "good").await;
    }
    world.comes_to_park(16).await;
    until("the free keys arrive", || sink.events().len() == 64).await;
    let pair = Pair::find(&world).await;

    // A note waits for the first shard, while events are decided on that the next one parks in both.
    let mut shard = world.database.pool.begin().await.unwrap();
    let lock = "SELECT shard FROM leastlock_outbox_shard WHERE shard = $1::bigint::smallint FOR UPDATE";
    Statement::new(lock).bind(pair.first_shard).fetch_one::<Postgres>(&mut shard).await.unwrap();
    world.commit(&pair.free[0], "before").await;
    until_waiting(&world, "leastlock_outbox_shard").await;
    let mut tx = world.database.pool.begin().await.unwrap();
    for key in pair.blocked.iter().chain(&pair.free) {
        world.outbox.append(&mut tx, Event::new(TOPIC, key.as_str()).bytes("behind")).await.unwrap();
    }
    tx.commit().await.unwrap();
    until("the events behind the two arrive", || sink.events().len() == 67).await;

    // An operator holds the queue that comes first by name, and goes on to the other.
    let mut operator = world.database.pool.begin().await.unwrap();
    let lock = "SELECT queue FROM leastlock_outbox_parked_queue WHERE queue = $1 FOR UPDATE NOWAIT";
    Statement::new(lock).bind(&pair.queues[1]).fetch_one::<Postgres>(&mut operator).await.unwrap();
    shard.rollback().await.unwrap();
    until_waiting(&world, "leastlock_outbox_parked_queue").await;
    let other = Statement::new(lock).bind(&pair.queues[0]).fetch_one::<Postgres>(&mut operator).await;
    assert!(other.is_ok(), "the note holds a queue behind the one that it waits for: {:?}", other.err());
    operator.rollback().await.unwrap();
    world.comes_to_park(18).await;
    relay.end().await;
}
