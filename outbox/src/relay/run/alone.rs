//! What is sent alone is sent when nothing at all is in flight, and nothing is handed over beside it; and it does not wait for ever.

use leastlock_testkit::TestDatabase;
use sqlx::Sqlite;

use super::*;
use crate::event::Event;
use crate::outbox::Outbox;
use crate::relay::log::SqlLog;
use crate::sink::{LoggedEvent, Receipt};

/// Keeps every event that it is given, without an answer.
#[derive(Clone, Default)]
struct Keeping(Arc<std::sync::Mutex<Vec<Receipt>>>);

impl Keeping {
    fn kept(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn answer(&self) {
        self.0.lock().unwrap().drain(..).for_each(Receipt::published);
    }
}

impl Sink for Keeping {
    async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
        Vec::new()
    }

    async fn send(&self, mut batch: Batch) {
        while let Some((_, receipt)) = batch.next() {
            self.0.lock().unwrap().push(receipt);
        }
    }

    fn abandon(&self) {
        drop(std::mem::take(&mut *self.0.lock().unwrap()));
    }
}

/// Appends events of these values in one transaction, each with its value as the key.
async fn append(database: &TestDatabase<Sqlite>, values: &[&str]) {
    let outbox = Outbox::open(&database.pool).await.unwrap();
    let mut tx = leastlock_core::begin(&database.pool).await.unwrap();
    for value in values {
        outbox.append(&mut tx, Event::new("t", *value).bytes(*value)).await.unwrap();
    }
    tx.commit().await.unwrap();
}

/// Reads what was appended, and checks it; nothing of it is handed over.
async fn read(run: &mut Run<'_, SqlLog<Sqlite>, Keeping>) {
    run.start_read();
    let pages = run.reading.done().await;
    run.have_read(pages).unwrap();
    run.start_handing_over(Instant::now());
    hand_over(run).await;
}

async fn hand_over(run: &mut Run<'_, SqlLog<Sqlite>, Keeping>) {
    if !run.handing_over.is_empty() {
        let handed = run.handing_over.done().await;
        run.handed_over(handed).unwrap();
    }
}

/// Two events in memory, of which the first is on its way without an answer.
async fn one_on_its_way(run: &mut Run<'_, SqlLog<Sqlite>, Keeping>, database: &TestDatabase<Sqlite>) {
    let look = look(run.ownership, &*run.relay.log, 10).await;
    run.have_claimed(look).unwrap();
    append(database, &["1"]).await;
    read(run).await;
    run.start_handing_over(Instant::now());
    hand_over(run).await;
    append(database, &["2"]).await;
    read(run).await;
}

#[tokio::test]
async fn b7_round_that_sends_alone_waits_for_all_that_is_in_flight() {
    let database = TestDatabase::<Sqlite>::create().await.with(&crate::MIGRATIONS).await;
    let sink = Keeping::default();
    let relay = Relay::builder(&database.pool, sink.clone()).build().unwrap();
    let ownership = Ownership::new(relay.settings.lease);
    let mut run = Run::new(&relay, &ownership);

    // One event is on its way, another is ready to be sent, and a round is to send alone.
    one_on_its_way(&mut run, &database).await;
    assert_eq!((sink.kept(), run.pipeline.unanswered()), (1, 1));
    assert!(run.can_resume(), "a round of another kind goes on beside it");
    run.resume_alone = true;
    assert!(!run.can_resume(), "something is in flight");
    run.start_handing_over(Instant::now());
    assert!(run.handing_over.is_empty(), "nothing more is sent before the round was");

    // So is what a former round left behind.
    sink.answer();
    run.take_reports();
    run.left_behind.push(Arc::default());
    assert!(!run.can_resume(), "something of another round is in flight");
    run.left_behind.clear();
    assert!(run.can_resume());
    run.start_handing_over(Instant::now());
    assert!(run.handing_over.is_empty() && sink.kept() == 0, "nor beside it");

    // The round is over: the rest goes on.
    run.start_resuming(Instant::now());
    let round = run.resuming.done().await;
    run.have_resumed(round).unwrap();
    run.start_handing_over(Instant::now());
    hand_over(&mut run).await;
    assert_eq!(sink.kept(), 1);
}

#[tokio::test]
async fn b7_round_that_sends_alone_waits_no_longer_than_a_lease() {
    let database = TestDatabase::<Sqlite>::create().await.with(&crate::MIGRATIONS).await;
    let sink = Keeping::default();
    let relay = Relay::builder(&database.pool, sink.clone()).build().unwrap();
    let ownership = Ownership::new(relay.settings.lease);
    let mut run = Run::new(&relay, &ownership);
    one_on_its_way(&mut run, &database).await;
    run.resume_alone = true;
    run.left_behind.push(Arc::default());
    let (start, lease) = (Instant::now(), relay.settings.lease);
    run.wait_no_longer_to_be_alone(start);
    run.wait_no_longer_to_be_alone(start + lease / 2);
    assert!(!run.can_resume(), "something may still be answered");
    // An answer says that others may come.
    run.take_reports();
    run.wait_no_longer_to_be_alone(start + lease / 2);
    run.wait_no_longer_to_be_alone(start + lease);
    assert!(!run.can_resume());
    run.wait_no_longer_to_be_alone(start + lease + lease / 2);
    assert!(run.can_resume() && run.pipeline.unanswered() == 0 && sink.kept() == 0, "the sink has forgotten it");
    run.start_handing_over(Instant::now());
    assert!(run.handing_over.is_empty(), "the round comes first");
    run.start_resuming(Instant::now());
    let round = run.resuming.done().await;
    run.have_resumed(round).unwrap();
    for kept in [1, 2] {
        run.start_handing_over(Instant::now());
        hand_over(&mut run).await;
        assert_eq!(sink.kept(), kept, "what had no answer, and then the rest");
    }
    sink.answer();
    run.take_reports();
    assert_eq!((run.pipeline.unnoted(), run.pipeline.unanswered()), (2, 0));
}

/// Events by their values: one partition gives no answer, `bad` is refused, everything else arrives.
#[derive(Clone, Default)]
struct OneDead(Arc<std::sync::Mutex<Partitions>>);

#[derive(Default)]
struct Partitions {
    dead: Vec<Receipt>,
    is_revived: bool,
    arrived: Vec<String>,
    refused: usize,
}

impl OneDead {
    fn seen<T>(&self, of: impl FnOnce(&mut Partitions) -> T) -> T {
        of(&mut self.0.lock().unwrap())
    }
}

impl Sink for OneDead {
    async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
        Vec::new()
    }

    async fn send(&self, mut batch: Batch) {
        while let Some((event, receipt)) = batch.next() {
            let value = String::from_utf8(event.value.clone().unwrap()).unwrap();
            if value == "bad" {
                self.seen(|seen| seen.refused += 1);
                receipt.failed(crate::sink::SendError::Permanent { reason: "it is bad".into() });
            } else if value == "dead" && !self.seen(|seen| seen.is_revived) {
                self.seen(|seen| seen.dead.push(receipt));
            } else {
                self.seen(|seen| seen.arrived.push(value));
                receipt.published();
            }
        }
    }

    fn abandon(&self) {
        drop(self.seen(|seen| std::mem::take(&mut seen.dead)));
    }
}

#[tokio::test]
async fn b7_event_without_an_answer_and_a_refused_one_stop_nothing_else() {
    const PATIENCE: Duration = Duration::from_secs(30);
    let database = TestDatabase::<Sqlite>::create().await.with(&crate::MIGRATIONS).await;
    let sink = OneDead::default();
    let relay = Relay::builder(&database.pool, sink.clone()).lease(Duration::from_millis(500)).build().unwrap();
    let (stats, shutdown) = (relay.stats(), CancellationToken::new());
    let running = tokio::spawn(relay.run(shutdown.clone()));
    append(&database, &["dead", "good 1", "bad", "good 2"]).await;
    let refused = async || sink.seen(|seen| seen.refused) > 0 && sink.seen(|seen| seen.dead.len()) == 1;
    leastlock_testkit::until("one is refused and one has no answer", PATIENCE, refused).await;
    append(&database, &["later 1", "later 2"]).await;
    let later = async || sink.seen(|seen| seen.arrived.len()) == 4;
    leastlock_testkit::until("the others go on", PATIENCE, later).await;
    assert_eq!(sink.seen(|seen| seen.refused), 2, "among others, and alone");

    sink.seen(|seen| seen.is_revived = true);
    sink.seen(|seen| std::mem::take(&mut seen.dead)).into_iter().for_each(Receipt::published);
    leastlock_testkit::until("all is noted", PATIENCE, async || stats.published() == 5 && stats.parked() == 1).await;
    shutdown.cancel();
    assert_eq!(running.await.unwrap().unwrap().published, 5);
    let arrived = sink.seen(|seen| seen.arrived.clone());
    assert_eq!(arrived, ["good 1", "good 2", "later 1", "later 2"], "none twice");
}
