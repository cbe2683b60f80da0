//! A worker under test: its broker, its tables, and a handler that does as it is told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use leastlock_core::{Backoff, Engine, Statement};
use leastlock_partition_worker::effect::InDatabase;
use leastlock_partition_worker::{
    Builder, Effect, Error, Failure, Handler, MIGRATIONS, Record, Summary, Timeouts, Worker, WorkerSql,
};
use leastlock_testkit::broker::Broker;
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, TopicPartitionList};
use sqlx::{Pool, Transaction};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Long enough for a loaded machine; nothing waits for it that comes earlier.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// The broker that goes with an engine.
pub(crate) trait Bus: TestEngine + WorkerSql {
    fn broker() -> Broker {
        match Self::ENGINE {
            Engine::Sqlite => Broker::mock(),
            _ => Broker::real(),
        }
    }
}

impl<DB: TestEngine + WorkerSql> Bus for DB {}

pub(crate) struct Rig<DB: Bus> {
    pub(crate) database: TestDatabase<DB>,
    pub(crate) broker: Broker,
    pub(crate) topic: String,
    pub(crate) group: String,
    pub(crate) settings: Vec<(&'static str, String)>,
}

impl<DB: Bus> Rig<DB> {
    pub(crate) async fn new(database: TestDatabase<DB>, partitions: i32) -> Self {
        // A test that fails shows what the worker said; RUST_LOG chooses how much.
        let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into());
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
        let database = database.with(&MIGRATIONS).await;
        create_effect_table(&database).await;
        let broker = DB::broker();
        let topic = broker.topic(partitions).await;
        Self { database, broker, group: format!("{topic}-group"), topic, settings: Vec::new() }
    }

    pub(crate) fn builder(&self) -> Builder<InDatabase<DB>> {
        let timeouts = Timeouts { idle: Duration::from_secs(20), ..Timeouts::default() };
        self.builder_with(timeouts)
    }

    pub(crate) fn builder_with(&self, timeouts: Timeouts) -> Builder<InDatabase<DB>> {
        builder(&self.database.pool, timeouts, self.broker.bootstrap(), &self.group, &self.topic, &self.settings)
    }

    /// Waits until so many effects are committed.
    pub(crate) async fn effects(&self, count: i64) {
        self.until("SELECT count(*) FROM effect", |found| found >= count, &format!("{count} effects")).await;
    }

    pub(crate) async fn until(&self, sql: &'static str, condition: impl Fn(i64) -> bool, what: &str) {
        let deadline = Instant::now() + LIMIT;
        loop {
            let found = self.database.int(sql).await;
            if condition(found) {
                return;
            }
            assert!(Instant::now() < deadline, "no {what} within {LIMIT:?}; now it is {found}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The sum of the offsets that the group has committed to Kafka.
    pub(crate) async fn committed(&self, partitions: i32) -> i64 {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.broker.bootstrap()).set("group.id", &self.group);
        let mut list = TopicPartitionList::new();
        list.add_partition_range(&self.topic, 0, partitions - 1);
        let asked = tokio::task::spawn_blocking(move || {
            let client: BaseConsumer = config.create().expect("a client");
            client.committed_offsets(list, LIMIT).expect("committed offsets")
        });
        let committed = asked.await.expect("no panic");
        committed.elements().iter().map(|element| element.offset().to_raw().expect("an offset")).sum()
    }

    /// Produces records for each key, in turn, with their number of the key as the value, from 1.
    pub(crate) async fn produce(&self, keys: &[&str], numbers: std::ops::RangeInclusive<i64>) {
        for number in numbers {
            for key in keys {
                self.broker.produce(&self.topic, key, number.to_string()).await;
            }
        }
    }

    /// Each key's effects are its numbers, each once, in order.
    pub(crate) async fn assert_exactly_once(&self, keys: &[&str], upto: i64) {
        let mut connection = self.database.pool.acquire().await.expect("a connection");
        let rows = Statement::new("SELECT record_key, number FROM effect ORDER BY id");
        let rows = rows.fetch_all::<DB>(&mut connection).await.expect("the effects");
        for key in keys {
            let numbers: Vec<i64> = rows
                .iter()
                .filter(|row| row.text(0).expect("a key") == *key)
                .map(|row| row.int(1).expect("a number"))
                .collect();
            assert_eq!(numbers, (1..=upto).collect::<Vec<_>>(), "the effects of {key}");
        }
        assert_eq!(rows.len(), keys.len() * usize::try_from(upto).expect("small"), "effects in all");
    }
}

pub(crate) fn builder<DB: WorkerSql>(
    pool: &Pool<DB>,
    timeouts: Timeouts,
    bootstrap: &str,
    group: &str,
    topic: &str,
    settings: &[(&'static str, String)],
) -> Builder<InDatabase<DB>> {
    let mut kafka = ClientConfig::new();
    kafka.set("bootstrap.servers", bootstrap).set("group.id", group);
    if !settings.iter().any(|(name, _)| *name == "group.protocol") {
        kafka.set("session.timeout.ms", "6000").set("heartbeat.interval.ms", "500");
    }
    for (name, value) in settings {
        kafka.set(*name, value);
    }
    Worker::builder(kafka)
        .topic(topic)
        .effect(Effect::in_database(pool).timeouts(timeouts))
        .backoff(Backoff::new(Duration::from_millis(5), Duration::from_millis(50)))
        .commit_every(Duration::from_millis(200))
        .fold_every(Duration::from_millis(100))
        .rejoin_after(Duration::from_secs(8))
}

async fn create_effect_table<DB: TestEngine>(database: &TestDatabase<DB>) {
    let create = match DB::ENGINE {
        Engine::Sqlite => {
            "CREATE TABLE effect (id INTEGER PRIMARY KEY AUTOINCREMENT, record_key TEXT, number BIGINT, owner TEXT)"
        }
        Engine::MySql => {
            "CREATE TABLE effect (id BIGINT AUTO_INCREMENT PRIMARY KEY, record_key TEXT, number BIGINT, owner TEXT)"
        }
        _ => "CREATE TABLE effect (id BIGINT GENERATED ALWAYS AS IDENTITY, record_key TEXT, number BIGINT, owner TEXT)",
    };
    database.execute(create).await;
}

pub(crate) fn start<DB: WorkerSql, H: Handler<DB>>(builder: Builder<InDatabase<DB>>, handler: H) -> Running {
    let shutdown = CancellationToken::new();
    let worker = builder.build().expect("a worker");
    Running { task: tokio::spawn(worker.run(handler, shutdown.clone())), shutdown }
}

/// A running worker.
pub(crate) struct Running {
    pub(crate) task: JoinHandle<Result<Summary, Error>>,
    pub(crate) shutdown: CancellationToken,
}

impl Running {
    pub(crate) async fn stop(self) -> Summary {
        self.shutdown.cancel();
        self.ended().await.expect("the worker ends without an error")
    }

    pub(crate) async fn ended(self) -> Result<Summary, Error> {
        tokio::time::timeout(LIMIT, self.task).await.expect("the worker ends in time").expect("it does not panic")
    }

    /// Ends the worker without a word, as far as this can be done inside a process.
    pub(crate) async fn crash(self) {
        self.task.abort();
        assert!(self.task.await.is_err_and(|error| error.is_cancelled()), "it was still running");
    }
}

type Before = dyn Fn(&Record) -> BoxFuture<'static, Result<(), Failure>> + Send + Sync;

/// Inserts an effect for each record, after what it is told to do before.
pub(crate) struct Told {
    owner: &'static str,
    before: Arc<Before>,
}

impl Told {
    pub(crate) fn plain(owner: &'static str) -> Self {
        Self::first(owner, |_| Box::pin(async { Ok(()) }))
    }

    pub(crate) fn first(
        owner: &'static str,
        before: impl Fn(&Record) -> BoxFuture<'static, Result<(), Failure>> + Send + Sync + 'static,
    ) -> Self {
        Self { owner, before: Arc::new(before) }
    }
}

impl<DB: WorkerSql> Handler<DB> for Told {
    async fn handle(&self, record: &Record, tx: &mut Transaction<'_, DB>) -> Result<(), Failure> {
        (self.before)(record).await?;
        apply::<DB>(tx, record, self.owner).await
    }
}

pub(crate) async fn apply<DB: WorkerSql>(
    connection: &mut DB::Connection,
    record: &Record,
    owner: &str,
) -> Result<(), Failure> {
    let key = String::from_utf8_lossy(record.key().unwrap_or_default()).into_owned();
    let insert = sql::<DB>(
        "INSERT INTO effect (record_key, number, owner) VALUES ($1, $2, $3)",
        "INSERT INTO effect (record_key, number, owner) VALUES (?, ?, ?)",
    );
    let insert = Statement::new(insert);
    insert.bind(&key).bind(record.json::<i64>()?).bind(owner).execute::<DB>(connection).await?;
    Ok(())
}

/// Waits for a condition of this process.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    leastlock_testkit::until(what, LIMIT, async || condition()).await;
}
