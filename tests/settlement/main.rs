//! The example `settlement` from outside: two machines, two kills, and what has to be found if the mark is left out.

mod program;

use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::Postgres;

use crate::program::{Output, run};

const EXAMPLE: &str = "settlement";
const RECONCILED: &str = "reconciled: every merchant was paid once";

fn assert_clean(output: &Output) {
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains(RECONCILED), "{output}");
    for killed in
        ["2026-09-02: worker a was killed after its commit", "2026-09-04: worker a was killed before its commit"]
    {
        assert!(output.stdout.contains(killed), "{output}");
    }
    let figure = |name: &str| output.figure::<i64>(name);
    let (days, merchants) = (figure("days"), figure("merchants"));
    assert_eq!(figure("payouts"), days * merchants, "{output}");
    assert_eq!(figure("sold, cents"), figure("paid, cents"), "{output}");
    // Each day once, but the one whose run was killed before it could say so. Every other start found it settled.
    let ran = figure("batches that worker a ran to their end") + figure("batches that worker b ran to their end");
    assert_eq!((ran, figure("starts that found the day settled")), (days - 1, 3 * days + 1), "{output}");
}

#[test]
fn with_no_arguments_two_kills_leave_every_day_settled_once() {
    assert_clean(&run(&[]));
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_two_kills_leave_every_day_settled_once() {
    let database = TestDatabase::<Postgres>::create().await;
    assert_clean(&run(&["--database", &database.url, "--days", "4"]));
    assert_eq!(database.int("SELECT count(*) FROM leastlock_once").await, 4);
    // Begun anew, it does not go on with the books of the run before.
    assert_clean(&run(&["--database", &database.url, "--days", "5", "--merchants", "3"]));
}

#[test]
fn mistakes_are_found_as_days_that_were_paid_twice_or_never() {
    for (mistake, said) in
        [("lease-alone", "paid 2 times"), ("mark-after", "paid 2 times"), ("mark-before", "paid 0 times")]
    {
        let output = run(&["--mistake", mistake, "--days", "4", "--merchants", "2", "--ttl-ms", "1000"]);
        assert_eq!(output.code, Some(1), "{mistake}: {output}");
        let day = format!("breach: 2026-09-02: merchant-0001 was {said}");
        assert!(
            output.stderr.contains(&day) || (mistake == "lease-alone" && output.stderr.contains("breach")),
            "{output}"
        );
        assert!(!output.stdout.contains(RECONCILED), "{mistake}: {output}");
    }
}

#[test]
fn what_cannot_be_run_ends_with_one_clear_line_and_exit_code_two() {
    for url in ["mysql://127.0.0.1:1/x", "postgres://127.0.0.1:1/x", "sqlite:///no/such/folder/file"] {
        let output = run(&["--database", url]);
        assert_eq!((output.code, output.stderr.lines().count()), (Some(2), 1), "{output}");
    }
    assert_eq!(run(&["--days", "0"]).code, Some(2));
}
