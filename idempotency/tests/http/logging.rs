//! What is logged and counted, and what never is.
#![cfg(feature = "sqlite")]

use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::Sqlite;
use leastlock_testkit::process::{Child, child_role, speak};
use tracing::Level;

use crate::client::{Call, PATIENCE};
use crate::stacks::Replaying;
use crate::stage::Stage;
use crate::suite::prepared;

/// The child's test function.
const LOGGER: &str = "logging::logger";

/// Nothing of these may reach a log or a label.
const SECRETS: [&str; 5] = ["8e03978e", "tenant-1", "/orders/", "a lamp for me", "place-order"];

/// A first, a repeat, a mismatch, an unknown outcome and its repeat, and a store that is down.
async fn a_bit_of_everything() {
    let database = prepared(TestDatabase::<Sqlite>::create().await).await;
    let stage = Stage::new(&database, &Replaying::default()).await;
    for (does, key, payload) in [
        ("plain", "8e03978e-1", "a lamp for me"),
        ("plain", "8e03978e-1", "a lamp for me"),
        ("plain", "8e03978e-1", "a lamp for me too"),
        ("broken", "8e03978e-2", "a lamp for me"),
        ("broken", "8e03978e-2", "a lamp for me"),
    ] {
        stage.ask(&Call::order(does, key, payload)).await;
    }
    stage.keys().close().await;
    assert_eq!(stage.ask(&Call::order("plain", "8e03978e-3", "a lamp for me")).await.status, 503);
}

/// What a process of its own logs: a subscriber of one thread's is not asked for what another thread came upon first.
fn logged(level: &str) -> String {
    let mut child = Child::rerun(LOGGER, &[("LEVEL", level)]);
    child.line_containing("all done", PATIENCE);
    let lines = child.lines().into_iter().filter(|line| line.contains("leastlock_idempotency:"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn no_key_scope_path_or_body_is_logged_above_trace() {
    let text = logged("DEBUG");
    for line in ["a key has ended", "its key is held", "problem=\"mismatch\"", "problem=\"store-failed\""] {
        assert!(text.contains(line), "{line:?} is not in {text}");
    }
    for secret in SECRETS {
        assert!(!text.contains(secret), "{secret:?} is in {text}");
    }
    assert!(logged("TRACE").contains("8e03978e-1"), "a key can be followed where that is asked for");
}

/// The child.
#[tokio::test(flavor = "current_thread")]
async fn logger() {
    if !child_role(LOGGER) {
        return;
    }
    let level: Level = std::env::var("LEVEL").unwrap().parse().unwrap();
    tracing_subscriber::fmt().with_ansi(false).with_max_level(level).init();
    a_bit_of_everything().await;
    speak("all done");
}

#[cfg(feature = "metrics")]
#[tokio::test(flavor = "current_thread")]
async fn requests_and_keys_are_counted_by_outcome_and_no_label_names_one() {
    use leastlock_idempotency::http::metrics::{
        IDEMPOTENCY_HTTP_HANDLER_SECONDS, IDEMPOTENCY_HTTP_HANDLERS_RUNNING, IDEMPOTENCY_HTTP_KEYS_TOTAL,
        IDEMPOTENCY_HTTP_REQUESTS_TOTAL, describe,
    };
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    let recorder = DebuggingRecorder::new();
    let snapshots = recorder.snapshotter();
    let _default = metrics::set_default_local_recorder(&recorder);
    describe();
    a_bit_of_everything().await;
    let mut counted = Vec::new();
    for (key, _, _, value) in snapshots.snapshot().into_vec() {
        if !key.key().name().starts_with("idempotency_http_") {
            // What the phased mode counts of its own.
            assert!(key.key().labels().all(|label| SECRETS.iter().all(|secret| !label.value().contains(secret))));
            continue;
        }
        let labels: Vec<_> = key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let labels = labels.join(",");
        assert!(SECRETS.iter().all(|secret| !labels.contains(secret)), "{labels}");
        match value {
            DebugValue::Counter(count) => counted.push((key.key().name().to_owned(), labels, count)),
            DebugValue::Gauge(running) => {
                assert_eq!((key.key().name(), running.into_inner()), (IDEMPOTENCY_HTTP_HANDLERS_RUNNING, 0.0));
            }
            DebugValue::Histogram(times) => {
                assert_eq!((key.key().name(), times.len()), (IDEMPOTENCY_HTTP_HANDLER_SECONDS, 2));
            }
        }
    }
    counted.sort();
    let of = |name: &str, label: &str, count| (name.to_owned(), label.to_owned(), count);
    assert_eq!(
        counted,
        [
            of(IDEMPOTENCY_HTTP_KEYS_TOTAL, "ended=completed", 1),
            of(IDEMPOTENCY_HTTP_KEYS_TOTAL, "ended=held", 1),
            of(IDEMPOTENCY_HTTP_REQUESTS_TOTAL, "outcome=first", 2),
            of(IDEMPOTENCY_HTTP_REQUESTS_TOTAL, "outcome=mismatch", 1),
            of(IDEMPOTENCY_HTTP_REQUESTS_TOTAL, "outcome=outcome-unknown", 1),
            of(IDEMPOTENCY_HTTP_REQUESTS_TOTAL, "outcome=replay", 1),
            of(IDEMPOTENCY_HTTP_REQUESTS_TOTAL, "outcome=store-failed", 1),
        ]
    );
}
