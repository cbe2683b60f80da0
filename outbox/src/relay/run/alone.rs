//! A round that sends alone begins only when nothing at all is in flight, and nothing is handed over beside it.

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

    fn abandon(&self) {}
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

#[tokio::test]
async fn b7_round_that_sends_alone_waits_for_all_that_is_in_flight() {
    let database = TestDatabase::<Sqlite>::create().await.with(&crate::MIGRATIONS).await;
    let outbox = Outbox::open(&database.pool).await.unwrap();
    let append = async |value: &str| {
        let mut tx = leastlock_core::begin(&database.pool).await.unwrap();
        outbox.append(&mut tx, Event::new("t", value).bytes(value)).await.unwrap();
        tx.commit().await.unwrap();
    };
    let sink = Keeping::default();
    let relay = Relay::builder(&database.pool, sink.clone()).build().unwrap();
    let ownership = Ownership::new(relay.settings.lease);
    let mut run = Run::new(&relay, &ownership);
    let look = look(&ownership, &*relay.log, 10).await;
    run.have_claimed(look).unwrap();

    // One event is on its way, another is ready to be sent, and a round is to send alone.
    append("1").await;
    read(&mut run).await;
    run.start_handing_over(Instant::now());
    hand_over(&mut run).await;
    assert_eq!((sink.kept(), run.pipeline.unanswered()), (1, 1));
    append("2").await;
    read(&mut run).await;
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
