//! A recorder for one test, and what it was told.

use leastlock_occ::metrics as names;
use metrics::Unit;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

/// The words that a label may have, as the documentation has them.
const LABELS: [(&str, &str, &[&str]); 4] = [
    (
        names::OCC_RETRY_RETRIES_TOTAL,
        "class",
        &["version_conflict", "state_conflict", "serialization_failure", "deadlock", "busy", "other"],
    ),
    (names::OCC_RETRY_EXHAUSTED_TOTAL, "limit", &["attempts", "time"]),
    (names::OCC_RETRY_UNIT_SECONDS, "outcome", &["committed", "failed", "exhausted", "dropped"]),
    (
        names::OCC_COMBINER_RETRIES_TOTAL,
        "class",
        &[
            "serialization_failure",
            "deadlock",
            "busy",
            "lock_timeout",
            "statement_timeout",
            "connection_lost",
            "pool_timeout",
            "raced",
            "attempt_timeout",
            "reply_lost",
            "other",
        ],
    ),
];

/// What a recorder was told since it was last looked at.
#[derive(Debug)]
pub(crate) struct Seen(Vec<Figure>);

#[derive(Debug)]
pub(crate) struct Figure {
    pub(crate) name: String,
    labels: Vec<(String, String)>,
    pub(crate) unit: Option<Unit>,
    pub(crate) description: Option<String>,
    value: DebugValue,
}

/// Runs `work` on this thread, which alone reports to the recorder: so the tests beside it are not seen.
pub(crate) fn seen<F: Future<Output = ()>>(work: impl FnOnce(Snapshotter) -> F) -> Seen {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = runtime();
    metrics::with_local_recorder(&recorder, || runtime.block_on(work(snapshotter.clone())));
    Seen::by(&snapshotter)
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

impl Seen {
    /// Takes what there is; the recorder begins anew.
    pub(crate) fn by(snapshotter: &Snapshotter) -> Self {
        let figure = |(key, unit, description, value): (metrics_util::CompositeKey, _, Option<_>, _)| {
            let (name, labels) = key.key().clone().into_parts();
            let labels = labels.iter().map(|label| (label.key().to_owned(), label.value().to_owned())).collect();
            let description = description.map(|text: metrics::SharedString| text.into_owned());
            Figure { name: name.as_str().to_owned(), labels, unit, description, value }
        };
        Self(snapshotter.snapshot().into_vec().into_iter().map(figure).collect())
    }

    pub(crate) fn figures(&self) -> &[Figure] {
        &self.0
    }

    /// A counter, over all its labels.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let of_name = self.0.iter().filter(|figure| figure.name == name);
        of_name.map(|figure| if let DebugValue::Counter(value) = figure.value { value } else { 0 }).sum()
    }

    /// What a counter has for each word of its one label; those at zero are left out.
    pub(crate) fn by_label(&self, name: &str) -> Vec<(&str, u64)> {
        let of_name = self.0.iter().filter(|figure| figure.name == name);
        let words = of_name.filter_map(|figure| match (&figure.labels[..], &figure.value) {
            ([(_, word)], DebugValue::Counter(value)) if *value > 0 => Some((word.as_str(), *value)),
            _ => None,
        });
        words.collect()
    }

    /// What a histogram was told, in the order in which it was.
    pub(crate) fn values(&self, name: &str) -> Vec<f64> {
        let of_name = self.0.iter().filter(|figure| figure.name == name);
        let values = of_name.filter_map(|figure| match &figure.value {
            DebugValue::Histogram(values) => Some(values.iter().map(|value| value.into_inner())),
            _ => None,
        });
        values.flatten().collect()
    }

    /// The words of a histogram's one label, once for each value.
    pub(crate) fn words(&self, name: &str) -> Vec<&str> {
        let of_name = self.0.iter().filter(|figure| figure.name == name);
        let words = of_name.filter_map(|figure| match (&figure.labels[..], &figure.value) {
            ([(_, word)], DebugValue::Histogram(values)) => Some(values.iter().map(|_| word.as_str())),
            _ => None,
        });
        words.flatten().collect()
    }

    pub(crate) fn gauge(&self, name: &str) -> f64 {
        let gauge = self.0.iter().find_map(|figure| match figure.value {
            DebugValue::Gauge(value) if figure.name == name => Some(value.into_inner()),
            _ => None,
        });
        gauge.unwrap_or(f64::NAN)
    }

    /// Whether every label is one of those that are written down.
    pub(crate) fn check_labels(&self) -> Result<(), String> {
        for figure in &self.0 {
            let expected: Vec<_> = LABELS.iter().filter(|(name, ..)| *name == figure.name).collect();
            let is_known = figure.labels.len() == expected.len()
                && figure
                    .labels
                    .iter()
                    .zip(expected)
                    .all(|((key, word), (_, expected, words))| key == expected && words.contains(&word.as_str()));
            if !is_known {
                return Err(format!("{}: {:?}", figure.name, figure.labels));
            }
        }
        Ok(())
    }
}
