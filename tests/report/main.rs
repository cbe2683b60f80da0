//! The example `report` from outside: a writer that is stopped for longer than its lease, and what has to be found without the fence.

#[path = "../settlement/program.rs"]
mod program;

use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::Postgres;

use crate::program::{Output, run};

const EXAMPLE: &str = "report";
const RECONCILED: &str = "reconciled: every report has all that was booked";

fn assert_clean(output: &Output) {
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains(RECONCILED), "{output}");
    let figure = |name: &str| output.figure::<u32>(name);
    let months = figure("months");
    assert_eq!(figure("reports that were published after a take-over"), months, "{output}");
    assert_eq!(figure("late reports that were refused"), months, "{output}");
    assert_eq!(figure("late reports that were published"), 0, "{output}");
}

#[test]
fn with_no_arguments_late_reports_are_refused() {
    assert_clean(&run(&[]));
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_late_reports_are_refused_and_the_folder_has_the_published_ones() {
    let (database, folder) = (TestDatabase::<Postgres>::create().await, tempfile::tempdir().unwrap());
    let folder_name = folder.path().display().to_string();
    assert_clean(&run(&["--database", &database.url, "--folder", &folder_name, "--months", "2", "--bookings", "7"]));
    let generations = "SELECT min(generation) FROM report_published";
    assert_eq!((database.int(generations).await, std::fs::read_dir(folder.path()).unwrap().count()), (2, 2));
    let report = std::fs::read_to_string(folder.path().join("2026-01.g2.csv")).unwrap();
    // Header, seven bookings, the one that came in meanwhile, and the total.
    assert_eq!(report.lines().count(), 10, "{report}");
}

#[test]
fn without_the_fence_a_late_report_goes_over_a_newer_one_and_that_is_a_breach() {
    let output = run(&["--unfenced", "--months", "1"]);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stderr.contains("breach: 2026-01: 2026-01.csv has 100 bookings of 101"), "{output}");
    assert_eq!(output.figure::<u32>("late reports that were published"), 1, "{output}");
}

#[test]
fn what_cannot_be_run_ends_with_one_clear_line_and_exit_code_two() {
    for url in ["mysql://127.0.0.1:1/x", "postgres://127.0.0.1:1/x"] {
        let output = run(&["--database", url]);
        assert_eq!((output.code, output.stderr.lines().count()), (Some(2), 1), "{output}");
    }
    assert_eq!(run(&["--months", "0"]).code, Some(2));
}
