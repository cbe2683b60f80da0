//! Relays under test, and what they published.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leastlock_outbox::relay::SqlLog;
use leastlock_outbox::{
    Batch, Error, Event, LoggedEvent, MIGRATIONS, Outbox, OutboxSql, Refusal, Relay, RelayBuilder, Sink, Summary,
};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Pool;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long what must come is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The lease of the relays under test.
pub(crate) const LEASE: Duration = Duration::from_millis(1500);

/// A relay at work. Clones of its sink can go to other relays, to record in one place.
pub(crate) struct Running {
    shutdown: CancellationToken,
    task: JoinHandle<Result<Summary, Error>>,
}

impl Running {
    pub(crate) fn start<DB: TestEngine + OutboxSql>(pool: &Pool<DB>, sink: &Recorder) -> Self {
        Self::with(pool, sink, |relay| relay)
    }

    pub(crate) fn with<DB: TestEngine + OutboxSql>(
        pool: &Pool<DB>,
        sink: &Recorder,
        settings: impl FnOnce(RelayBuilder<SqlLog<DB>, Recorder>) -> RelayBuilder<SqlLog<DB>, Recorder>,
    ) -> Self {
        let relay = settings(Relay::builder(pool, sink.clone()).lease(LEASE)).build().expect("valid settings");
        let shutdown = CancellationToken::new();
        Self { task: tokio::spawn(relay.run(shutdown.clone())), shutdown }
    }

    pub(crate) async fn end(self) {
        self.shutdown.cancel();
        self.task.await.expect("no panic").expect("the relay ends well");
    }

    /// It is gone, and what it held is free when its lease is over.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn kill(self) {
        self.task.abort();
    }

    /// What a relay that stops by itself says.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) async fn stopped(self) -> Error {
        let stopped = tokio::time::timeout(PATIENCE, self.task).await.expect("it stops by itself");
        stopped.expect("no panic").expect_err("it stops with an error")
    }
}

/// The value of an event that no sink of these tests takes.
pub(crate) const BAD: &str = "bad";

/// Keeps what is published, as (key, value), in the order of the sending; while its gate is shut it answers for nothing.
#[derive(Clone)]
pub(crate) struct Recorder {
    sent: Arc<Mutex<Vec<(String, String)>>>,
    open: Arc<watch::Sender<bool>>,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self { sent: Arc::default(), open: Arc::new(watch::Sender::new(true)) }
    }

    pub(crate) fn shut() -> Self {
        let recorder = Self::new();
        recorder.open.send_replace(false);
        recorder
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }

    pub(crate) fn sent(&self) -> Vec<(String, String)> {
        self.sent.lock().expect("no panic").clone()
    }

    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn values(&self) -> Vec<String> {
        self.sent().into_iter().map(|(_, value)| value).collect()
    }

    pub(crate) async fn comes_to(&self, count: usize) {
        until(&format!("{count} events were published"), async || self.sent().len() >= count).await;
    }
}

impl Sink for Recorder {
    async fn check(&self, events: &[LoggedEvent]) -> Vec<Refusal> {
        let bad = events.iter().enumerate().filter(|(_, event)| event.value.as_deref() == Some(BAD.as_bytes()));
        bad.map(|(index, _)| Refusal { index, reason: "it is bad".into() }).collect()
    }

    async fn send(&self, batch: Batch) {
        let text = |bytes: &Option<Vec<u8>>| String::from_utf8(bytes.clone().unwrap_or_default()).expect("text");
        let pairs = batch.events().iter().map(|event| (text(&event.key), text(&event.value)));
        self.sent.lock().expect("no panic").extend(pairs);
        let mut open = self.open.subscribe();
        tokio::spawn(async move {
            let _ = open.wait_for(|open| *open).await;
            batch.published();
        });
    }

    fn abandon(&self) {}
}

pub(crate) async fn tables<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) -> (TestDatabase<DB>, Outbox) {
    let database = database.with(&MIGRATIONS).await;
    let outbox = Outbox::open(&database.pool).await.expect("the tables are there");
    (database, outbox)
}

/// Appends and commits.
pub(crate) async fn commit<DB: TestEngine + OutboxSql>(outbox: &Outbox, pool: &Pool<DB>, key: &str, value: &str) {
    let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    outbox.append(&mut tx, Event::new("moves", key).bytes(value)).await.expect("it appends");
    tx.commit().await.expect("it commits");
}

/// Waits for what has to come to hold.
pub(crate) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    leastlock_testkit::until(what, PATIENCE, holds).await;
}
