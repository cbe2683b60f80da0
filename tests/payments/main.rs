//! The example `payments` from outside: drives with kills and faults, mistakes that its report must find, and its HTTP.

mod http;
mod program;

use leastlock_testkit::TestDatabase;
use leastlock_testkit::broker::KAFKA_BROKERS;
use leastlock_testkit::database::{Postgres, Sqlite};

use crate::program::{Output, first_line_and_kill, payments};

/// Long enough to bring every card and some repeats, and fixed: what is bought and when the service is killed is the same in
/// every run.
const SHORT: [&str; 9] = ["drive", "--payments", "48", "--clients", "12", "--opening-stock", "8", "--seed", "20261129"];

fn drive(more: &[&str]) -> Output {
    payments(SHORT.iter().chain(more))
}

#[test]
fn embedded_killed_service_charges_each_payment_once_and_gives_stock_back_once() {
    assert_clean(&drive(&["--kills", "4"]), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_killed_service_charges_each_payment_once_and_gives_stock_back_once() {
    let database = TestDatabase::<Postgres>::create().await;
    assert_clean(&drive(&["--kills", "4", "--stops", "0", "--database", &database.url]), 4);
    let again = drive(&["--database", &database.url]);
    assert_eq!(again.code, Some(2), "{again}");
    assert!(again.stderr.contains("has payments already"), "{again}");
}

/// A late owner wakes up with its call in hand, and its provider would charge for it.
#[tokio::test(flavor = "multi_thread")]
async fn postgres_service_that_was_stopped_for_longer_than_its_lease_charges_nothing_late() {
    let database = TestDatabase::<Postgres>::create().await;
    let output = drive(&["--kills", "0", "--stops", "3", "--charge-every-call", "--database", &database.url]);
    assert_clean(&output, 0);
    assert_eq!(output.figure("stops for longer than the lease"), 3, "{output}");
    assert!(output.figure("keys that went to others meanwhile") > 0, "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_and_kafka_every_order_has_its_one_event_in_the_topic() {
    let database = TestDatabase::<Postgres>::create().await;
    let brokers = std::env::var(KAFKA_BROKERS)
        .unwrap_or_else(|_| panic!("{KAFKA_BROKERS} is not set: eval \"$(scripts/services env)\""));
    let output = drive(&["--kills", "2", "--stops", "0", "--database", &database.url, "--brokers", &brokers]);
    assert_clean(&output, 2);
    assert_eq!(output.figure("events"), output.figure("paid") + output.figure("declined"), "{output}");
}

#[test]
fn provider_that_deduplicates_may_be_called_again() {
    let output = drive(&["--kills", "2", "--policy", "retry"]);
    assert_clean(&output, 2);
    assert!(output.figure("calls with a key that it had seen") > 0, "{output}");
}

#[test]
fn provider_that_does_not_deduplicate_is_asked_and_charges_once() {
    assert_clean(&drive(&["--kills", "2", "--charge-every-call"]), 2);
}

#[test]
fn held_keys_are_resolved_by_the_reconciler() {
    let output = drive(&["--kills", "1", "--charge-every-call", "--policy", "hold"]);
    assert_clean(&output, 1);
    assert!(output.figure("outcomes resolved by the reconciler") > 0, "{output}");
}

/// The broken doubles: services that make a classic mistake, driven and judged like the real one.
#[test]
fn mistakes_of_the_service_are_found_as_double_charges() {
    for mistake in [
        &["--mistake", "new-key-per-attempt"][..],
        &["--charge-every-call", "--mistake", "believe-not-seen"],
        // The policy for a provider that deduplicates, with one that does not.
        &["--charge-every-call", "--policy", "retry"],
    ] {
        let output = drive(&[mistake, &["--kills", "0"]].concat());
        assert_eq!(output.code, Some(1), "{mistake:?}: {output}");
        assert!(output.stderr.contains("breach: double charge: order"), "{mistake:?}: {output}");
        assert!(!output.stdout.contains("reconciled"), "{mistake:?}: {output}");
        assert!(output.figure("charges at the provider") > output.figure("paid"), "{mistake:?}: {output}");
    }
}

#[test]
fn run_that_is_killed_has_said_its_seed() {
    let seed = |line: String| -> Option<u64> { line.strip_prefix("seed ")?.parse().ok() };
    let drawn = seed(first_line_and_kill(&["drive"]));
    let drawn = drawn.expect("a seed that was drawn is the first thing that is said");
    assert_eq!(seed(first_line_and_kill(&["drive", "--seed", &drawn.to_string()])), Some(drawn));
}

#[tokio::test(flavor = "multi_thread")]
async fn books_that_were_falsified_are_a_breach() {
    let database = TestDatabase::<Sqlite>::create().await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let folder_name = folder.path().display().to_string();
    let driven = drive(&["--kills", "0", "--database", &database.url, "--folder", &folder_name]);
    assert_clean(&driven, 0);
    let (ledger, events) = (file("ledger.sqlite"), file("events.jsonl"));
    let report = || payments(["report", "--database", &database.url, "--ledger", &ledger, "--events", &events]);
    let clean = report();
    assert_eq!(clean.code, Some(0), "{clean}");
    for (falsify, undo, said) in [
        (
            "UPDATE payment_stock SET units = units + 1 WHERE item = 'item-0'",
            "UPDATE payment_stock SET units = units - 1 WHERE item = 'item-0'",
            "are not the opening",
        ),
        (
            "UPDATE payment_stock SET given_back = given_back + 1 WHERE item = 'item-0'",
            "UPDATE payment_stock SET given_back = given_back - 1 WHERE item = 'item-0'",
            "units were given back",
        ),
        (
            "UPDATE payment_order SET charge_id = 'x' || charge_id WHERE charge_id = 'ch_1'",
            "UPDATE payment_order SET charge_id = 'ch_1' WHERE charge_id = 'xch_1'",
            "the provider has",
        ),
        (
            "UPDATE payment_order SET state = 'paid' WHERE state = 'cancelled'",
            // The last one: there is no way back.
            "SELECT 1",
            "is paid, and the provider has 0 charges",
        ),
    ] {
        database.execute(falsify).await;
        let breach = report();
        assert_eq!(breach.code, Some(1), "{falsify}: {breach}");
        assert!(breach.stderr.contains(said), "{falsify}: {breach}");
        database.execute(undo).await;
    }
}

#[test]
fn what_cannot_be_run_ends_with_one_clear_line_and_exit_code_two() {
    for (arguments, said) in [
        (&["drive", "--database", "mysql://127.0.0.1:1/x"][..], "--database must begin with"),
        (&["drive", "--database", "postgres://127.0.0.1:1/x"], "cannot reach the database"),
        (&["drive", "--stops", "1"], "--stops needs PostgreSQL"),
        (&["drive", "--brokers", "127.0.0.1:1"], "cannot make the topic"),
        (&["report", "--ledger", "/nowhere/ledger.sqlite"], "there is no ledger"),
        (&["report", "--ledger", "Cargo.toml", "--database", "sqlite:///nowhere/x.sqlite"], "there is no database"),
        (&["serve", "--database", "mysql://127.0.0.1:1/x"], "--database must begin with"),
    ] {
        let output = payments(arguments);
        assert_eq!(output.code, Some(2), "{output}");
        assert_eq!(output.stderr.trim_end().lines().count(), 1, "{output}");
        assert!(output.stderr.contains(said), "{output}");
    }
}

#[test]
fn mistaken_arguments_are_told_with_what_there_is() {
    for (arguments, said) in [
        (&["drive", "--clients", "0"][..], "1..=256"),
        (&["drive", "--client", "1"], "--clients"),
        (&["drive", "--policy", "hope"], "possible values: "),
        (&[], "Usage: payments"),
    ] {
        let output = payments(arguments);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(output.stderr.contains(said), "{output}");
    }
}

fn assert_clean(output: &Output, kills: u64) {
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("reconciled"), "{output}");
    assert_eq!(output.figure("requests answered"), 3 * output.figure("payments"), "{output}");
    assert_eq!(output.figure("kills of the service"), kills, "{output}");
    assert_eq!(output.figure("charges at the provider"), output.figure("paid"), "{output}");
    // The drive has met what it is for.
    for figure in ["paid", "declined", "sold out", "replayed", "given back"] {
        assert!(output.figure(figure) > 0, "{figure}: {output}");
    }
}
