//! Relays in processes, and what is at the broker afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leastlock_core::Engine;
use leastlock_outbox::{Event, KafkaSink, Lag, MIGRATIONS, Outbox, OutboxSql, Relay};
use leastlock_testkit::broker::Broker;
use leastlock_testkit::checkers::order::{Delivery, complete};
use leastlock_testkit::process::{Child, hear, speak};
use leastlock_testkit::{TestDatabase, TestEngine};
use rdkafka::ClientConfig;
use sqlx::Pool;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::late;

const PATIENCE: Duration = Duration::from_mins(1);
const LEASE: Duration = Duration::from_secs(3);
const KEYS: u64 = 20;
/// What a relay may have handed over and not noted: the most that is published twice.
const IN_FLIGHT: u32 = 300;

/// How a relay publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SinkKind {
    Idempotent,
    #[cfg_attr(not(feature = "postgres"), allow(dead_code, reason = "one engine shows it"))]
    Transactional,
}

impl SinkKind {
    fn is_transactional(self) -> bool {
        self == Self::Transactional
    }
}

/// The child's part: a relay to Kafka, until it is told to end.
pub(crate) fn relay<DB: TestEngine + OutboxSql>() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let env = |name: &str| std::env::var(name).expect("the parent sets it");
    runtime.block_on(async {
        let pool = DB::connect(&env("DATABASE")).await;
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", env("BROKERS"));
        let prefix = env("TRANSACTIONS");
        let sink = if prefix.is_empty() { KafkaSink::new(config) } else { KafkaSink::transactional(config, prefix) };
        let sink = sink.expect("valid settings");
        let relay =
            Relay::builder(&pool, sink).lease(LEASE).page(20).in_flight(IN_FLIGHT).build().expect("valid settings");
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(relay.run(shutdown.clone()));
        speak("relaying");
        let _ = tokio::task::spawn_blocking(hear).await;
        shutdown.cancel();
        running.await.expect("no panic").expect("the relay ends well");
        speak("ended");
    });
}

/// A database, a topic, and a writer that goes on until it is stopped.
struct Scene<DB: TestEngine> {
    database: TestDatabase<DB>,
    broker: Broker,
    topic: String,
    role: &'static str,
    kind: SinkKind,
    stop: Arc<AtomicBool>,
}

impl<DB: TestEngine + OutboxSql> Scene<DB> {
    async fn set(database: TestDatabase<DB>, broker: Broker, role: &'static str, kind: SinkKind) -> Self {
        let database = database.with(&MIGRATIONS).await;
        let topic = broker.topic(3).await;
        for statement in note_takers(DB::ENGINE) {
            database.execute(statement).await;
        }
        Self { database, broker, topic, role, kind, stop: Arc::default() }
    }

    async fn write(&self) -> JoinHandle<u64> {
        let outbox = Outbox::open(&self.database.pool).await.unwrap();
        let (pool, topic, stop) = (self.database.pool.clone(), self.topic.clone(), self.stop.clone());
        tokio::spawn(async move { append_until(&stop, &outbox, &pool, &topic).await })
    }

    fn relay(&self) -> Child {
        let prefix = if self.kind.is_transactional() { self.topic.as_str() } else { "" };
        let envs =
            [("DATABASE", self.database.url.as_str()), ("BROKERS", self.broker.bootstrap()), ("TRANSACTIONS", prefix)];
        let mut child = Child::rerun(self.role, &envs);
        child.line_containing("relaying", PATIENCE);
        child
    }

    async fn held(&self) -> i64 {
        self.database.int("SELECT count(*) FROM leastlock_outbox_shard WHERE owner IS NOT NULL").await
    }

    /// Whether two relays hold all, half of it each: shards change hands one by one, as they are drained. One shard has one holder.
    async fn is_shared(&self, shards: i64) -> bool {
        // In one statement: between two, one relay may give its half up.
        let holders_and_smallest = "SELECT coalesce(1000 * count(*) + min(held), 0) FROM (SELECT count(*) AS held \
                                    FROM leastlock_outbox_shard WHERE owner IS NOT NULL GROUP BY owner) AS share";
        let holders = shards.min(2);
        self.database.int(holders_and_smallest).await == 1000 * holders + shards / holders
    }

    /// How long after `since` the last shard changed hands.
    async fn taken_after(&self, since: i64) -> i64 {
        self.database.int("SELECT max(at) FROM taken").await - since
    }

    async fn now(&self) -> i64 {
        let now = match DB::ENGINE {
            Engine::Sqlite => "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
            Engine::MySql => "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000",
            _ => "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint",
        };
        self.database.int(now).await
    }

    /// Stops the writer, lets everything be published, and holds what is at the broker against it; answers how many are there twice.
    async fn finish(&self, writer: JoinHandle<u64>) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        let rounds = writer.await.unwrap();
        until("all is published", async || Lag::of(&self.database.pool).await.unwrap().backlog == 0).await;
        let records = self.broker.read_all(&self.topic, PATIENCE).await;
        let history: Vec<Delivery> = records
            .iter()
            .map(|record| {
                let id = record.header("leastlock_event_id").expect("an id");
                let id = String::from_utf8(id.to_vec()).expect("text");
                Delivery::new(record.key_text(), record.value_text().parse().expect("a number"), id)
            })
            .collect();
        let keys: Vec<String> = (0..KEYS).map(|key| format!("k{key}")).collect();
        complete(&history, keys.iter().map(|key| (key.as_str(), rounds))).unwrap_or_else(|breach| panic!("{breach}"));
        history.len() as u64 - rounds * KEYS
    }
}

async fn append_until<DB: TestEngine + OutboxSql>(
    stop: &AtomicBool,
    outbox: &Outbox,
    pool: &Pool<DB>,
    topic: &str,
) -> u64 {
    let mut round = 0;
    while !stop.load(Ordering::SeqCst) {
        round += 1;
        for keys in [0..KEYS / 2, KEYS / 2..KEYS] {
            let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
            for key in keys {
                let event = Event::new(topic, format!("k{key}")).bytes(round.to_string());
                outbox.append(&mut tx, event).await.expect("it appends");
            }
            tx.commit().await.expect("it commits");
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    round
}

/// Statements that note each time at which a shard is given an owner.
fn note_takers(engine: Engine) -> &'static [&'static str] {
    match engine {
        Engine::Sqlite => &[
            "CREATE TABLE taken (shard INTEGER NOT NULL, at INTEGER NOT NULL)",
            "CREATE TRIGGER taken AFTER UPDATE OF owner ON leastlock_outbox_shard \
             WHEN NEW.owner IS NOT NULL AND NEW.owner IS NOT OLD.owner BEGIN \
             INSERT INTO taken VALUES (NEW.shard, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)); END",
        ],
        Engine::MySql => &[
            "CREATE TABLE taken (shard BIGINT NOT NULL, at BIGINT NOT NULL)",
            "CREATE TRIGGER taken AFTER UPDATE ON leastlock_outbox_shard FOR EACH ROW \
             INSERT INTO taken SELECT NEW.shard, TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) DIV 1000 FROM DUAL \
             WHERE NEW.owner IS NOT NULL AND NOT NEW.owner <=> OLD.owner",
        ],
        _ => &[
            "CREATE TABLE taken (shard bigint NOT NULL, at bigint NOT NULL)",
            "CREATE FUNCTION note_taker() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
             INSERT INTO taken VALUES (NEW.shard, (extract(epoch FROM clock_timestamp()) * 1000)::bigint); \
             RETURN NULL; END $$",
            "CREATE TRIGGER taken AFTER UPDATE ON leastlock_outbox_shard FOR EACH ROW \
             WHEN (NEW.owner IS NOT NULL AND NEW.owner IS DISTINCT FROM OLD.owner) EXECUTE FUNCTION note_taker()",
        ],
    }
}

pub(crate) async fn killed_relay_is_followed_in_time<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
    broker: Broker,
    role: &'static str,
    kind: SinkKind,
) {
    let limit = i64::try_from((LEASE + Duration::from_secs(1)).as_millis()).unwrap();
    let scene = Scene::set(database, broker, role, kind).await;
    let writer = scene.write().await;
    let mut first = scene.relay();
    let shards = scene.database.int("SELECT count(*) FROM leastlock_outbox_shard").await;
    until("the first holds all", async || scene.held().await == shards).await;
    let mut second = scene.relay();
    until("each has its share", async || scene.is_shared(shards).await).await;
    let watched = scene.database.int("SELECT count(*) FROM taken").await;
    first.kill();
    let killed = scene.now().await;
    let orphans = if shards == 1 { 1 } else { shards / 2 };
    let taken = "SELECT count(*) FROM taken";
    until("its shards are taken", async || scene.database.int(taken).await == watched + orphans).await;
    let after = scene.taken_after(killed).await;
    assert!(after <= limit, "taken over after {after} ms");
    let twice = scene.finish(writer).await;
    assert!(twice <= u64::from(IN_FLIGHT), "{twice} events were published twice");
    second.send_line("end");
    second.line_containing("ended", PATIENCE);

    // The double looks at the leases as well, and by a limit of its own.
    let mut third = scene.relay();
    until("the third holds all", async || scene.held().await == shards).await;
    third.kill();
    let killed = scene.now().await;
    let late = late::follower(&scene.database.pool);
    let taken = "SELECT count(*) FROM leastlock_outbox_shard WHERE owner = 'late'";
    until("the double has taken them", async || scene.database.int(taken).await == shards).await;
    late.abort();
    assert!(scene.taken_after(killed).await > limit, "the double must be seen to be late");
}

pub(crate) async fn stopped_relay_turns_nothing_round<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
    broker: Broker,
    role: &'static str,
    kind: SinkKind,
) {
    let scene = Scene::set(database, broker, role, kind).await;
    let writer = scene.write().await;
    let mut first = scene.relay();
    let shards = scene.database.int("SELECT count(*) FROM leastlock_outbox_shard").await;
    until("the first holds all", async || scene.held().await == shards).await;
    let mut second = scene.relay();
    until("each has its share", async || scene.is_shared(shards).await).await;
    let watched = scene.database.int("SELECT count(*) FROM taken").await;
    first.stop();
    let orphans = if shards == 1 { 1 } else { shards / 2 };
    let taken = "SELECT count(*) FROM taken";
    until("its shards are taken", async || scene.database.int(taken).await == watched + orphans).await;
    // It comes back in the middle of what the other publishes, with all that it had read and sent in memory.
    first.resume();
    if shards > 1 {
        until("it is given a share again", async || scene.database.int(taken).await >= watched + 2 * orphans).await;
    }
    let twice = scene.finish(writer).await;
    assert!(twice <= 2 * u64::from(IN_FLIGHT), "{twice} events were published twice");
    for child in [&mut first, &mut second] {
        child.send_line("end");
        child.line_containing("ended", PATIENCE);
    }
}

async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    leastlock_testkit::until(what, PATIENCE, holds).await;
}
