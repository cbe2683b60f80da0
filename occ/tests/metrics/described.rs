//! What an exporter is told of each metric.

use leastlock_occ::metrics as names;
use metrics::{Unit, counter, gauge, histogram};
use metrics_util::debugging::DebuggingRecorder;

use super::seen::Seen;

#[test]
fn every_metric_has_a_description_and_a_unit_that_its_name_bears_out() {
    let counters = [
        names::OCC_RETRY_ATTEMPTS_TOTAL,
        names::OCC_RETRY_RETRIES_TOTAL,
        names::OCC_RETRY_EXHAUSTED_TOTAL,
        names::OCC_COMBINER_RETRIES_TOTAL,
        names::OCC_COMBINER_SPLITS_TOTAL,
        names::OCC_COMBINER_UNKNOWN_TOTAL,
    ];
    let histograms = [
        names::OCC_RETRY_UNIT_SECONDS,
        names::OCC_COMBINER_BATCH_OPERATIONS,
        names::OCC_COMBINER_BATCH_SECONDS,
        names::OCC_COMBINER_COMMIT_SECONDS,
    ];
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || {
        names::describe();
        for name in counters {
            counter!(name).increment(1);
        }
        for name in histograms {
            histogram!(name).record(1.0);
        }
        gauge!(names::OCC_COMBINER_QUEUE_OPERATIONS).set(1.0);
    });
    let seen = Seen::by(&recorder.snapshotter());
    let written_down = include_str!("../../src/metrics.rs").matches("pub const OCC_").count();
    assert_eq!(seen.figures().len(), written_down, "one of them is missing above");
    for figure in seen.figures() {
        let unit = if figure.name.ends_with("_seconds") { Unit::Seconds } else { Unit::Count };
        assert_eq!(figure.unit, Some(unit), "{}", figure.name);
        assert!(figure.description.as_ref().is_some_and(|text| !text.is_empty()), "{}", figure.name);
        let ending = ["_total", "_seconds", "_operations"];
        assert!(figure.name.starts_with("occ_") && ending.iter().any(|end| figure.name.ends_with(end)));
    }
}
