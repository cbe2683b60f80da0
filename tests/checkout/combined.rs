//! The same guarantees of the combined form.

use std::path::Path;
use std::time::{Duration, Instant};

use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::{Postgres, Sqlite};

use crate::day::{HEAD, days, invoices};
use crate::program::{Checkout, Running, brokers};
use crate::{PATIENCE, PLENTY, SCARCE, assert_ledger_equals_the_file, assert_scarce_stock_holds, finished, seeded};

const KILLS: u32 = 10;
/// Of these, so many at least must meet orders that are being placed, and not only the relay and the worker behind them.
const AMONG_ORDERS: u32 = 5;
/// Whether the answers have a table yet, and how many there are.
const TABLE: &str = "SELECT count(*) FROM pg_tables WHERE tablename = 'leastlock_occ_order' AND schemaname = 'public'";
const ANSWERED: &str = "SELECT count(*) FROM leastlock_occ_order";
/// The schema in which the plain form runs first.
const ASIDE: &str = "SELECT count(*) FROM pg_namespace WHERE nspname = 'checkout_plain'";

#[test]
fn combined_with_no_other_arguments_reconciles_and_prints_both_rates() {
    let output = Checkout::new().compared().run(PATIENCE);
    assert_eq!(output.code, Some(0), "{output}");
    assert!(output.stdout.contains("the plain form, first") && output.stdout.contains("reconciled"), "{output}");
    let figure = |name| output.figure::<f64>(name);
    let (combined, plain, ratio) =
        (figure("requests a second"), figure("of the plain form"), figure("combined / plain"));
    // Both rates are rounded to whole requests, the ratio is not made of the rounded ones.
    assert!((ratio - combined / plain).abs() < 0.02 * ratio + 0.01, "{output}");
}

#[test]
fn combined_embedded_ledger_equals_the_file() {
    for day in days() {
        assert_ledger_equals_the_file(Checkout::new().combined().orders(&day).storm(), &day);
    }
}

#[test]
fn combined_embedded_scarce_stock_never_goes_below_zero_and_refusals_are_replayed() {
    for day in days() {
        assert_scarce_stock_holds(Checkout::new().combined().orders(&day).storm());
    }
}

#[test]
fn combined_and_plain_form_decide_alike_what_comes_in_the_same_order() {
    let folder = tempfile::tempdir().unwrap();
    // One client: nothing but the orders decides. Scarce: what one order is refused, a later one gets.
    let books = |form: fn(Checkout) -> Checkout, day: &Path| {
        let file = folder.path().join("ledger.csv");
        let checkout = form(Checkout::new()).orders(day).argument("--clients", "1").argument("--seed", "7");
        let output = checkout.opening_stock(SCARCE).ledger(&file).run(PATIENCE);
        assert_eq!(output.code, Some(0), "{output}");
        let counts = ["placed", "refused", "events", "units out", "units back"].map(|name| output.figure::<u64>(name));
        (std::fs::read_to_string(file).unwrap(), counts)
    };
    let odd = folder.path().join("odd.csv");
    // Moves that cancel out, more than there is; charges only; both ways of which some is left; none of a line is left.
    let lines = "1,A,X,50,d,1.0,7,UK\n1,A,X,-50,d,1.0,7,UK\n2,POST,P,1,d,1.0,7,UK\n3,A,X,-1,d,1.0,7,UK\n3,A,X,21,d,1.0,7,UK\n\
        4,B,X,1,d,1.0,7,UK\n4,A,X,1,d,1.0,7,UK\n5,A,X,-3,d,0.0,,UK\n4x,A,X,3,d,1.0,7,UK\n";
    std::fs::write(&odd, format!("{HEAD}{lines}")).unwrap();
    for day in days().into_iter().take(1).chain([odd]) {
        let plain = books(|checkout| checkout, &day);
        assert_eq!(books(Checkout::combined, &day), plain, "{}", day.display());
        assert!(plain.1[1] > 0, "{}: nothing was refused", day.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn combined_real_servers_ledger_equals_the_file() {
    for day in days() {
        let database = TestDatabase::<Postgres>::create().await;
        assert_ledger_equals_the_file(on_servers(&database, &day), &day);
        assert_only_the_combined_run_is_left(&database, &day).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn combined_real_servers_scarce_stock_never_goes_below_zero_and_refusals_are_replayed() {
    for day in days() {
        let database = TestDatabase::<Postgres>::create().await;
        assert_scarce_stock_holds(on_servers(&database, &day));
        let refused = "SELECT count(*) FROM leastlock_occ_order WHERE answer LIKE 'refused %'";
        assert!(database.int(refused).await > 0, "refusals are kept as answers");
        assert_only_the_combined_run_is_left(&database, &day).await;
        // Started again, every copy is told what the first one was, though some stock has come back since.
        let again = on_servers(&database, &day).opening_stock(SCARCE).run(PATIENCE);
        assert_eq!(again.code, Some(0), "{again}");
        assert_eq!(again.figure::<u64>("replayed"), again.figure::<u64>("requests answered"), "{again}");
        assert!(again.figure::<u64>("refused") > 0 && !again.has("combined / plain"), "{again}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn combined_killed_at_ten_random_moments_the_day_ends_with_the_same_ledger() {
    let mut rng = seeded();
    let day = days().remove(0);
    let orders = invoices(&day);
    let mut database = TestDatabase::<Postgres>::create().await;
    let (mut kills, mut among_orders) = (0, 0);
    while kills < KILLS {
        let before = answered(&database).await;
        let mut running = on_servers(&database, &day).opening_stock(PLENTY).start();
        let target = orders.min(before + rng.i64(1..=orders / 8));
        let came = reaches(&database, TABLE, 1, &mut running).await
            && reaches(&database, ANSWERED, target, &mut running).await;
        if before == orders {
            // Nothing but the ledger is missing.
            tokio::time::sleep(Duration::from_millis(rng.u64(100..3_000))).await;
        }
        let placed = answered(&database).await;
        if running.kill() {
            kills += 1;
            among_orders += u32::from(came && placed < orders);
        }
        if finished(&database, &day).await {
            assert_ledger_equals_the_file(on_servers(&database, &day), &day);
            database = TestDatabase::<Postgres>::create().await;
        }
    }
    assert_ledger_equals_the_file(on_servers(&database, &day), &day);
    assert_only_the_combined_run_is_left(&database, &day).await;
    assert!(among_orders >= AMONG_ORDERS, "{among_orders} of {KILLS} kills came while orders were being placed");
}

#[tokio::test(flavor = "multi_thread")]
async fn combined_killed_in_the_plain_form_that_comes_first_the_next_run_leaves_nothing_of_it() {
    let database = TestDatabase::<Postgres>::create().await;
    let day = days().remove(0);
    let compared = || Checkout::new().compared().orders(&day).storm().database(&database.url).brokers(&brokers());
    let mut running = compared().opening_stock(PLENTY).start();
    let there = "SELECT count(*) FROM pg_tables WHERE tablename = 'shop_order' AND schemaname = 'checkout_plain'";
    reaches(&database, there, 1, &mut running).await;
    assert!(reaches(&database, "SELECT count(*) FROM checkout_plain.shop_order", 5, &mut running).await);
    assert!(running.kill());
    assert_eq!((database.int(ASIDE).await, answered(&database).await), (1, 0));

    assert_ledger_equals_the_file(compared(), &day);
    assert_only_the_combined_run_is_left(&database, &day).await;
    // A day that was begun has no rate to compare.
    let again = compared().opening_stock(PLENTY).run(PATIENCE);
    assert_eq!(again.code, Some(0), "{again}");
    assert!(!again.has("combined / plain"), "{again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn combined_an_answer_that_is_forgotten_is_a_double_sale_and_a_breach() {
    let database = TestDatabase::<Postgres>::create().await;
    let checkout = || Checkout::new().combined().database(&database.url).brokers(&brokers());
    let first = checkout().run(PATIENCE);
    assert_eq!(first.code, Some(0), "{first}");

    // The broken double: a shop that does not remember one order that it has placed.
    let forget = "WITH forgotten AS ( \
            DELETE FROM shop_order WHERE invoice = (SELECT min(invoice) FROM shop_order WHERE units_out > 0) RETURNING invoice \
        ) \
        DELETE FROM leastlock_occ_order USING forgotten WHERE order_id = 'place-order/' || invoice";
    database.execute(forget).await;
    let breach = checkout().run(PATIENCE);
    assert_eq!(breach.code, Some(1), "{breach}");
    assert!(breach.stderr.contains("one was placed twice or lost"), "{breach}");
}

#[tokio::test(flavor = "multi_thread")]
async fn combined_and_plain_form_do_not_go_on_with_each_others_day() {
    let database = TestDatabase::<Postgres>::create().await;
    let plain = || Checkout::new().database(&database.url).brokers(&brokers());
    assert_eq!(plain().run(PATIENCE).code, Some(0));
    let refused = plain().combined().run(PATIENCE);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(refused.stderr.contains("a run of the plain form"), "{refused}");
    let fresh = plain().combined().fresh().run(PATIENCE);
    assert_eq!(fresh.code, Some(0), "{fresh}");
    let refused = plain().run(PATIENCE);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(refused.stderr.contains("a run of the combined form"), "{refused}");
    assert_eq!(plain().combined().fresh().run(PATIENCE).code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn combined_another_applications_order_ids_are_not_forgotten() {
    let database = TestDatabase::<Sqlite>::create().await.with(&leastlock::occ::MIGRATIONS).await;
    let theirs = "INSERT INTO leastlock_occ_order (order_id, operation_digest, answer) VALUES ('536365', 7, 'applied')";
    database.execute(theirs).await;
    for checkout in [Checkout::new().combined(), Checkout::new().combined().fresh(), Checkout::new().fresh()] {
        let refused = checkout.database(&database.url).run(PATIENCE);
        assert_eq!(refused.code, Some(2), "{refused}");
        assert!(refused.stderr.contains("another application"), "{refused}");
    }
    assert_eq!(database.int("SELECT count(*) FROM leastlock_occ_order").await, 1);
}

#[test]
fn combined_order_of_too_many_codes_is_refused_before_anything_is_placed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("wide.csv");
    let lines: Vec<_> = (0..1_001).map(|code| format!("7,code{code},X,1,d,1.0,7,UK\n")).collect();
    std::fs::write(&file, format!("{HEAD}{}", lines.concat())).unwrap();
    let refused = Checkout::new().orders(&file).combined().run(PATIENCE);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(refused.stderr.contains("invoice 7 cannot be combined"), "{refused}");
    assert_eq!(Checkout::new().orders(&file).run(PATIENCE).code, Some(0));
}

fn on_servers(database: &TestDatabase<Postgres>, day: &Path) -> Checkout {
    Checkout::new().combined().orders(day).storm().database(&database.url).brokers(&brokers())
}

/// Every order has one answer, in the place of this form.
async fn assert_only_the_combined_run_is_left(database: &TestDatabase<Postgres>, day: &Path) {
    assert_eq!(database.int(ASIDE).await, 0);
    assert_eq!(database.int("SELECT count(*) FROM leastlock_idempotency").await, 0);
    assert_eq!(answered(database).await, invoices(day));
    let placed = "SELECT count(*) FROM leastlock_occ_order WHERE answer = 'applied'";
    assert_eq!(database.int(placed).await, database.int("SELECT count(*) FROM shop_order").await);
}

/// How many orders of the combined run have an answer.
async fn answered(database: &TestDatabase<Postgres>) -> i64 {
    match database.int(TABLE).await {
        0 => 0,
        _ => database.int(ANSWERED).await,
    }
}

/// Waits until a statement counts so many; false if the run ends before.
async fn reaches(database: &TestDatabase<Postgres>, count: &'static str, target: i64, running: &mut Running) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while database.int(count).await < target {
        assert!(Instant::now() < deadline, "{count} never reaches {target}");
        if !running.is_at_work() {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    true
}
