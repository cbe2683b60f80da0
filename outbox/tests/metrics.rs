//! What relays report to the recorder of the application.
#![cfg(all(feature = "metrics", feature = "sqlite"))]

use std::time::Duration;

use leastlock_outbox::{Event, MIGRATIONS, MemorySink, Outbox, Relay, metrics};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::Sqlite;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(30);

/// Every name in the snapshot, with its value and whether it has a unit.
fn figures(snapshotter: &Snapshotter) -> Vec<(String, f64, bool, usize)> {
    let value = |value: DebugValue| match value {
        #[allow(clippy::cast_precision_loss, reason = "they are small")]
        DebugValue::Counter(count) => count as f64,
        DebugValue::Gauge(gauge) => gauge.0,
        #[allow(clippy::cast_precision_loss, reason = "they are small")]
        DebugValue::Histogram(samples) => samples.len() as f64,
    };
    let snapshot = snapshotter.snapshot().into_vec().into_iter();
    let figure = |(key, unit, _, of): (metrics_util::CompositeKey, Option<_>, _, _)| {
        (key.key().name().to_owned(), value(of), unit.is_some(), key.key().labels().count())
    };
    snapshot.map(figure).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relay_reports_what_it_published_and_how_far_it_is_behind() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().expect("the only recorder of the process");
    metrics::describe();
    let database = TestDatabase::<Sqlite>::create().await.with(&MIGRATIONS).await;
    let outbox = Outbox::open(&database.pool).await.unwrap();
    for number in 0..7 {
        let mut tx = database.pool.begin().await.unwrap();
        outbox.append(&mut tx, Event::new("moves", "k").bytes(number.to_string())).await.unwrap();
        tx.commit().await.unwrap();
    }
    let (sink, shutdown) = (MemorySink::default(), CancellationToken::new());
    let relay = Relay::builder(&database.pool, sink.clone()).build().unwrap();
    let stats = relay.stats();
    let running = tokio::spawn(relay.run(shutdown.clone()));
    let noted = async {
        while stats.published() < 7 || stats.shards() != 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, noted).await.expect("they are published");
    assert!(stats.published_per_second() > 0.0);
    let mut seen: Vec<(String, f64, bool, usize)> = Vec::new();
    let reported = async {
        // A snapshot takes the counters away, so they are kept.
        while !seen.iter().any(|(name, ..)| name == metrics::OUTBOX_PARKED_EVENTS) {
            seen.extend(figures(&snapshotter));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reported).await.expect("the lag is reported");
    shutdown.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(stats.shards(), 0, "given back");

    let sum = |name: &str| -> f64 { seen.iter().filter(|(other, ..)| other == name).map(|(_, value, ..)| value).sum() };
    assert!((sum(metrics::OUTBOX_PUBLISHED_TOTAL) - 7.0).abs() < f64::EPSILON, "{seen:?}");
    for name in [
        metrics::OUTBOX_PUBLISH_SECONDS,
        metrics::OUTBOX_SHARDS_HELD,
        metrics::OUTBOX_BACKLOG_EVENTS,
        metrics::OUTBOX_OLDEST_UNPUBLISHED_SECONDS,
        metrics::OUTBOX_OLDEST_OPEN_WRITER_SECONDS,
        metrics::OUTBOX_OLDEST_PARKED_SECONDS,
    ] {
        assert!(seen.iter().any(|(other, ..)| other == name), "{name} is not reported: {seen:?}");
    }
    assert!(seen.iter().all(|(.., has_unit, labels)| *has_unit && *labels == 0), "{seen:?}");
}
