//! The main job from outside: the example `checkout`, its exit codes, and its ledger against the file.

mod combined;
mod day;
mod program;

use std::time::Duration;

use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::{Postgres, Sqlite};

use crate::day::{Sums, days, invoices, ledger, sums};
use crate::program::{Checkout, brokers};

/// How long one run may take on a loaded machine.
const PATIENCE: Duration = Duration::from_mins(3);
/// So much that no order is refused.
const PLENTY: i64 = 1_000_000;
/// So little that many are.
const SCARCE: i64 = 20;

#[test]
fn with_no_arguments_the_sample_reconciles_on_embedded_defaults() {
    let output = Checkout::new().run(PATIENCE);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("reconciled"), "{output}");
}

#[test]
fn embedded_ledger_equals_the_file() {
    for day in days() {
        let checkout = Checkout::new().orders(&day).storm();
        assert_ledger_equals_the_file(checkout, &day);
    }
}

#[test]
fn embedded_scarce_stock_never_goes_below_zero_and_refusals_are_replayed() {
    for day in days() {
        assert_scarce_stock_holds(Checkout::new().orders(&day).storm());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_servers_ledger_equals_the_file() {
    for day in days() {
        let database = TestDatabase::<Postgres>::create().await;
        let checkout = Checkout::new().orders(&day).storm().database(&database.url).brokers(&brokers());
        assert_ledger_equals_the_file(checkout, &day);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn real_servers_scarce_stock_never_goes_below_zero_and_refusals_are_replayed() {
    for day in days() {
        let database = TestDatabase::<Postgres>::create().await;
        let checkout = Checkout::new().orders(&day).storm().database(&database.url).brokers(&brokers());
        assert_scarce_stock_holds(checkout);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_ten_random_moments_the_day_ends_with_the_same_ledger() {
    let mut rng = seeded();
    let day = days().remove(0);
    // A kill counts if it found the run at work; a day that ended before its kill is followed by a fresh one.
    let (mut kills, mut database) = (0, TestDatabase::<Postgres>::create().await);
    let checkout = |url: &str| Checkout::new().orders(&day).storm().database(url).brokers(&brokers());
    while kills < 10 {
        let moment = Duration::from_millis(rng.u64(100..4_000));
        if checkout(&database.url).opening_stock(PLENTY).kill_after(moment) {
            kills += 1;
        }
        // Five kills hit the orders as well as the relay and the worker behind them.
        if kills == 5 || finished(&database, &day).await {
            assert_ledger_equals_the_file(checkout(&database.url), &day);
            database = TestDatabase::<Postgres>::create().await;
        }
    }
    assert_ledger_equals_the_file(checkout(&database.url), &day);
}

/// Draws the moments of kills. `LEASTLOCK_SEED` repeats those of a test that failed.
fn seeded() -> fastrand::Rng {
    let seed = std::env::var("LEASTLOCK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("LEASTLOCK_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// Whether every order of the day is placed and every event of it is in the ledger.
async fn finished(database: &TestDatabase<Postgres>, day: &std::path::Path) -> bool {
    let tables = "SELECT count(*) FROM pg_tables \
        WHERE schemaname = 'public' AND tablename IN ('shop_order', 'shop_stock', 'ledger')";
    let placed = "SELECT count(*) FROM shop_order";
    let missing = "SELECT (SELECT coalesce(sum(moves), 0) FROM shop_stock)::bigint - coalesce(sum(last_sequence), 0)::bigint \
        FROM ledger";
    database.int(tables).await == 3 && database.int(placed).await == invoices(day) && database.int(missing).await == 0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_day_can_be_started_again_and_a_falsified_ledger_is_a_breach() {
    let database = TestDatabase::<Postgres>::create().await;
    let checkout = || Checkout::new().database(&database.url).brokers(&brokers());
    let first = checkout().run(PATIENCE);
    assert_eq!(first.code, Some(0), "{first}");
    let again = checkout().run(PATIENCE);
    assert_eq!(again.code, Some(0), "{again}");

    // The broken double: a ledger in which one unit was doubled.
    let falsify = "UPDATE ledger SET units_out = units_out + 1 \
        WHERE stock_code = (SELECT stock_code FROM ledger ORDER BY stock_code LIMIT 1)";
    database.execute(falsify).await;
    let breach = checkout().run(PATIENCE);
    assert_eq!(breach.code, Some(1), "{breach}");
    assert!(breach.stderr.contains("breach: stock code"), "{breach}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_belongs_to_one_day_until_fresh() {
    let database = TestDatabase::<Postgres>::create().await;
    let checkout = || Checkout::new().database(&database.url).brokers(&brokers());
    assert_eq!(checkout().run(PATIENCE).code, Some(0));
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.csv");
    std::fs::write(&other, format!("{}1,A,X,1,d,1.0,7,UK\n", day::HEAD)).unwrap();
    let refused = checkout().orders(&other).run(PATIENCE);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(refused.stderr.contains("another file of orders"), "{refused}");
    let other_stock = checkout().opening_stock(7).run(PATIENCE);
    assert_eq!(other_stock.code, Some(2), "{other_stock}");
    let fresh = checkout().orders(&other).fresh().run(PATIENCE);
    assert_eq!(fresh.code, Some(0), "{fresh}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_in_process_kafka_that_is_gone_is_said() {
    let database = TestDatabase::<Sqlite>::create().await;
    let checkout = || Checkout::new().database(&database.url);
    assert_eq!(checkout().run(PATIENCE).code, Some(0));
    let gone = checkout().run(PATIENCE);
    assert_eq!(gone.code, Some(2), "{gone}");
    assert!(gone.stderr.contains("--fresh"), "{gone}");
    assert_eq!(checkout().fresh().run(PATIENCE).code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn another_applications_events_are_neither_published_nor_forgotten() {
    let database = TestDatabase::<Sqlite>::create().await.with(&leastlock::outbox::MIGRATIONS).await;
    let outbox = leastlock::outbox::Outbox::open(&database.pool).await.unwrap();
    let mut tx = database.pool.begin().await.unwrap();
    outbox.append(&mut tx, leastlock::outbox::Event::new("theirs", "k")).await.unwrap();
    tx.commit().await.unwrap();
    for checkout in [Checkout::new(), Checkout::new().fresh()] {
        let refused = checkout.database(&database.url).run(PATIENCE);
        assert_eq!(refused.code, Some(2), "{refused}");
        assert!(refused.stderr.contains("another application"), "{refused}");
    }
    assert_eq!(database.int("SELECT count(*) FROM leastlock_outbox").await, 1);
    assert_eq!(database.int("SELECT max(last_id) FROM leastlock_outbox_shard").await, 0);
}

#[test]
fn what_cannot_be_run_ends_with_one_clear_line_and_exit_code_two() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.csv");
    std::fs::write(&broken, format!("{}1,A,X,1,d,1.0,7,UK\n1,A,X,one,d,1.0,7,UK\n", day::HEAD)).unwrap();
    let missing = folder.path().join("missing.csv");
    for (checkout, said) in [
        (Checkout::new().orders(&broken), "line 3"),
        (Checkout::new().orders(&missing), "cannot read"),
        (Checkout::new().database("postgres://127.0.0.1:1/x"), "cannot reach the database"),
        (Checkout::new().database("mysql://127.0.0.1:1/x"), "--database must begin with"),
        (Checkout::new().brokers("127.0.0.1:1"), "cannot reach Kafka"),
    ] {
        let output = checkout.run(PATIENCE);
        assert_eq!(output.code, Some(2), "{output}");
        assert_eq!(output.stderr.trim_end().lines().count(), 1, "{output}");
        assert!(output.stderr.contains(said), "{output}");
    }
}

#[test]
fn wrong_arguments_are_told_with_what_may_have_been_meant() {
    for (checkout, said) in [
        (Checkout::new().argument("--clients", "0"), ["--clients", "1..=256"]),
        (Checkout::new().argument("--client", "1"), ["'--client'", "'--clients'"]),
    ] {
        let output = checkout.run(PATIENCE);
        assert_eq!(output.code, Some(2), "{output}");
        assert!(said.iter().all(|said| output.stderr.contains(said)), "{output}");
    }
}

fn assert_ledger_equals_the_file(checkout: Checkout, day: &std::path::Path) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.csv");
    let output = checkout.opening_stock(PLENTY).ledger(&file).run(PATIENCE);
    assert_eq!(output.code, Some(0), "{}: {output}", day.display());
    let ledger = ledger(&file);
    let expected: std::collections::BTreeMap<String, Sums> = sums(day);
    let moved = ledger.iter().map(|(code, row)| (code.clone(), row.sums)).collect();
    assert_eq!(expected, moved, "{}", day.display());
    assert!(ledger.values().all(|row| row.remaining == PLENTY - row.sums.out + row.sums.back));
}

/// The program itself proves that copies of an order agree, so a refusal that was not replayed as one would be exit code 1.
fn assert_scarce_stock_holds(checkout: Checkout) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.csv");
    let output = checkout.opening_stock(SCARCE).ledger(&file).run(PATIENCE);
    assert_eq!(output.code, Some(0), "{output}");
    let figure = |name| output.figure::<u64>(name);
    assert!(figure("refused") > 0 && figure("placed") > 0, "{output}");
    // An order that has its answer twice, or a refusal without one, would make the numbers differ.
    assert_eq!(figure("replayed"), 2 * figure("orders"), "{output}");
    for (code, row) in ledger(&file) {
        assert!(row.remaining >= 0, "{code}");
        assert_eq!(row.remaining, SCARCE - row.sums.out + row.sums.back, "{code}");
    }
}
