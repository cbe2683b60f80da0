//! The example `ledger` from outside: two workers, one of which is killed, and what has to be found if the fence is left out.

mod program;

use std::time::Duration;

use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::Postgres;

use crate::program::{Ledger, brokers};

const PATIENCE: Duration = Duration::from_mins(3);
const RECONCILED: &str = "reconciled: every entry once";

#[test]
fn with_no_arguments_a_worker_is_killed_and_the_ledger_reconciles() {
    let output = Ledger::new().run(PATIENCE);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains(RECONCILED), "{output}");
    let figure = |name: &str| output.figure::<u64>(name);
    let (entries, a, b) = (figure("entries"), figure("postings of worker a"), figure("postings of worker b"));
    assert_eq!(a + b, entries, "{output}");
    // Killed in the middle: the other one had to post the rest.
    let at = figure("postings when worker a was killed");
    assert!(at >= entries * 40 / 100 && at < entries && a <= at && b >= entries - at, "{output}");
    assert!(figure("withdrawals refused") > 0, "the order decides nothing if all are covered: {output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_real_servers_a_worker_is_killed_and_the_ledger_reconciles() {
    let database = TestDatabase::<Postgres>::create().await;
    let output = Ledger::new().on(&database.url, &brokers()).run(PATIENCE);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains(RECONCILED), "{output}");
    assert_eq!(database.int("SELECT count(*) FROM ledger_posting").await, output.figure::<i64>("entries"));
    // Begun anew, it does not go on with the books of the run before.
    let again = Ledger::new().on(&database.url, &brokers()).argument("--kill-at", "100").run(PATIENCE);
    assert_eq!(again.code, Some(0), "{again}");
    assert!(!again.has("postings when worker a was killed"), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_fence_a_kill_doubles_entries_and_that_is_a_breach() {
    let database = TestDatabase::<Postgres>::create().await;
    let output = Ledger::new().on(&database.url, &brokers()).flag("--unfenced").run(PATIENCE);
    assert_eq!(output.code, Some(1), "{output}");
    assert!(output.stderr.contains("was posted 2 times") && !output.stdout.contains(RECONCILED), "{output}");
    let doubled = "SELECT count(*) - count(DISTINCT (account, sequence)) FROM ledger_posting";
    assert!(database.int(doubled).await > 0, "{output}");
}

#[test]
fn mistakes_end_with_2_and_one_line() {
    for (name, value) in [("--database", "mysql://somewhere/else"), ("--database", "sqlite:///no/such/folder/file")] {
        let output = Ledger::new().argument(name, value).run(PATIENCE);
        assert_eq!((output.code, output.stderr.lines().count()), (Some(2), 1), "{output}");
    }
    assert_eq!(Ledger::new().argument("--kill-at", "0").run(PATIENCE).code, Some(2));
}
