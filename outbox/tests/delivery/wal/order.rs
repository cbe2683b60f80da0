//! What leaves, and in which order.

use std::sync::{Arc, Mutex};

use leastlock_outbox::wal::WalError;
use leastlock_outbox::{Batch, Error, Event, LoggedEvent, MemorySink, OnRefusal, Refusal, Sink};
use leastlock_testkit::TestDatabase;
use sqlx::{Connection, Postgres};
use tokio_util::sync::CancellationToken;

use super::doubles::{self, marked};
use super::{Shop, value_of};
use crate::readers::PATIENCE;
use crate::suite::Refusing;

/// How long a delivery that a double withholds is waited for; only the double's proof depends on it.
const DOUBLES_CHANCE: std::time::Duration = std::time::Duration::from_secs(1);

pub(crate) async fn b1_message_that_commits_later_is_delivered(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    let double = doubles::by_place_cursor(&shop, &shop.name);
    let mut late = shop.pool().begin().await.unwrap();
    shop.append(&mut late, "k", &marked("low")).await;
    doubles::commit(&shop, "high").await;
    assert!(double.delivers("high", PATIENCE).await);
    late.commit().await.unwrap();
    assert!(!double.delivers("low", DOUBLES_CHANCE).await, "the double must be seen to lose it");
    double.crash().await;

    let product = shop.product();
    let mut late = shop.pool().begin().await.unwrap();
    shop.append(&mut late, "k", "low again").await;
    shop.commit("k", "high again").await;
    assert!(product.delivers("high again", PATIENCE).await);
    late.commit().await.unwrap();
    assert!(product.delivers("low again", PATIENCE).await);
    assert_eq!(product.values(), [&marked("high"), &marked("low"), "high again", "low again"]);
}

pub(crate) async fn b2_open_writer_elsewhere_stalls_nothing(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    let product = shop.product();
    let mut open = shop.pool().begin().await.unwrap();
    shop.append(&mut open, "other", "held").await;
    for value in ["1", "2", "3"] {
        shop.commit("k", value).await;
        assert!(product.delivers(value, PATIENCE).await, "while the other transaction is open");
    }
    assert!(shop.catches_up().await, "the slot moves too");
    // What a relay begins with now is behind the open transaction's messages.
    product.crash().await;
    let product = shop.product();
    open.commit().await.unwrap();
    assert!(product.delivers("held", PATIENCE).await);
    assert_eq!(product.values(), ["held"]);
}

pub(crate) async fn b3_events_leave_in_commit_order_whatever_their_place_in_the_log(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    // No lock is taken: the order is that of the commits all the same.
    let mut older = shop.pool().begin().await.unwrap();
    shop.append(&mut older, "k", &marked("second")).await;
    let mut younger = shop.pool().begin().await.unwrap();
    shop.append(&mut younger, "k", &marked("first")).await;
    younger.commit().await.unwrap();
    older.commit().await.unwrap();
    assert_eq!(doubles::in_place_order(&shop).await, ["second", "first"], "the double must be seen to turn them round");
    let product = shop.product();
    assert!(product.delivers(&marked("second"), PATIENCE).await);
    assert_eq!(product.values(), [marked("first"), marked("second")]);
}

pub(crate) async fn b13_rolled_back_events_never_leave(database: TestDatabase<Postgres>) {
    let mut shop = Shop::open(database).await;
    let mut tx = shop.pool().begin().await.unwrap();
    shop.append(&mut tx, "k", "rolled back").await;
    let double = doubles::append_not_transactional(&shop, &mut tx, "double").await;
    tx.rollback().await.unwrap();
    let mut tx = shop.pool().begin().await.unwrap();
    shop.append(&mut tx, "k", "kept").await;
    let mut savepoint = tx.begin().await.unwrap();
    shop.append(&mut savepoint, "k", "in a lost savepoint").await;
    savepoint.rollback().await.unwrap();
    let mut savepoint = tx.begin().await.unwrap();
    shop.append(&mut savepoint, "k", "in a kept savepoint").await;
    savepoint.commit().await.unwrap();
    tx.commit().await.unwrap();
    shop.commit("k", "marker").await;
    let peek = "SELECT count(*) FROM pg_logical_slot_peek_binary_changes($1::text::name, NULL, NULL, 'proto_version', '1', \
        'publication_names', $1::text, 'messages', 'true') WHERE position($2::text::bytea IN data) > 0";
    let left = async |value: &'static str| -> i64 {
        sqlx::query_scalar(peek).bind(&shop.name).bind(value).fetch_one(shop.pool()).await.unwrap()
    };
    assert_eq!(left("double").await, 1, "the double's event must be seen to leave");
    assert_eq!(left("rolled back").await, 0);
    // The relay does not take such a message for an event, and stops at it.
    let relay = shop.outbox.relay(shop.pool(), MemorySink::default()).build().unwrap();
    let stopped = relay.run(CancellationToken::new()).await;
    assert!(matches!(stopped, Err(Error::Wal(WalError::Malformed { at, .. })) if at == double), "{stopped:?}");
    shop.outbox = shop.outbox.skipping([double]);
    let product = shop.product();
    assert!(product.delivers("marker", PATIENCE).await);
    assert_eq!(product.values(), ["kept", "in a kept savepoint", "marker"]);
}

pub(crate) async fn b14_event_of_a_transaction_that_a_trigger_holds_up_is_delivered_when_it_commits(
    database: TestDatabase<Postgres>,
) {
    let shop = Shop::open(database).await;
    // The trigger of the business table appends from plain SQL, and waits.
    shop.database.execute("CREATE TABLE item (value text)").await;
    let function = "CREATE FUNCTION append_and_wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
        PERFORM leastlock_wal_append(current_database(), 'moves', 'k', convert_to(NEW.value, 'UTF8')); \
        IF NEW.value = 'value:slow' THEN PERFORM pg_advisory_xact_lock(7); END IF; RETURN NEW; END $$";
    shop.database.execute(function).await;
    let trigger = "CREATE TRIGGER slow BEFORE INSERT ON item FOR EACH ROW EXECUTE FUNCTION append_and_wait()";
    shop.database.execute(trigger).await;
    let copy = doubles::copy_of_the_slot(&shop).await;
    let (product, double) = (shop.product(), doubles::by_place_cursor(&shop, &copy));
    let mut gate = shop.pool().begin().await.unwrap();
    sqlx::query("SELECT pg_advisory_xact_lock(7)").execute(&mut *gate).await.unwrap();
    let pool = shop.pool().clone();
    let slow = tokio::spawn(async move { sqlx::query("INSERT INTO item VALUES ('value:slow')").execute(&pool).await });
    let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let waits = async {
        while shop.database.int(waiting).await == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waits).await.expect("the insert waits in its trigger");
    shop.database.execute("INSERT INTO item VALUES ('value:later')").await;
    assert!(product.delivers(&marked("later"), PATIENCE).await && double.delivers("later", PATIENCE).await);
    gate.rollback().await.unwrap();
    slow.await.unwrap().unwrap();
    assert!(product.delivers(&marked("slow"), PATIENCE).await);
    assert!(!double.delivers("slow", DOUBLES_CHANCE).await, "the double must be seen to lose it");
}

/// A sink that acknowledges so many events, and then waits for ever.
struct Stalls {
    acknowledges: usize,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Sink for Stalls {
    async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
        Vec::new()
    }

    async fn send(&self, mut batch: Batch) {
        while let Some((event, receipt)) = batch.next() {
            let mut seen = self.seen.lock().unwrap();
            seen.push(value_of(event));
            if seen.len() <= self.acknowledges {
                receipt.published();
            }
        }
    }

    fn abandon(&self) {}
}

pub(crate) async fn b15_slot_is_moved_by_the_acknowledged_prefix_only(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    let mut first_ends = String::new();
    for transaction in 0..3 {
        let mut tx = shop.pool().begin().await.unwrap();
        for event in 0..4 {
            shop.append(&mut tx, "k", &format!("{transaction}.{event}")).await;
        }
        tx.commit().await.unwrap();
        if transaction == 0 {
            let now = sqlx::query_scalar("SELECT pg_current_wal_lsn()::text").fetch_one(shop.pool()).await;
            first_ends = now.unwrap();
        }
    }
    // Acknowledged is the first transaction, and half of the second.
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Stalls { acknowledges: 6, seen: seen.clone() };
    let relay = shop.outbox.relay(shop.pool(), sink).build().unwrap();
    let running = tokio::spawn(relay.run(CancellationToken::new()));
    let noted = tokio::time::timeout(PATIENCE, async {
        while seen.lock().unwrap().len() < 14 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    });
    noted.await.expect("what is unknown is published again");
    assert!(shop.comes_to(&format!("confirmed_flush_lsn >= '{first_ends}'")).await, "the prefix is noted");
    running.abort();
    let _ = running.await;
    // What was unknown was published again from the middle of the transaction on.
    let repeated = seen.lock().unwrap()[12..14].to_vec();
    assert_eq!(repeated, ["1.2", "1.3"]);
    // The next relay begins with the first transaction that is not acknowledged as a whole.
    let product = shop.product();
    assert!(product.delivers("2.3", PATIENCE).await);
    assert_eq!(product.values(), ["1.0", "1.1", "1.2", "1.3", "2.0", "2.1", "2.2", "2.3"]);
    assert!(shop.catches_up().await);
    product.crash().await;
    assert!(shop.comes_to("NOT active").await, "its session is gone");

    // The double loses what it has read and not published.
    doubles::commit(&shop, "unpublished").await;
    assert_eq!(doubles::reads_and_confirms_at_once(&shop).await, ["unpublished"]);
    shop.commit("k", "end").await;
    let next = shop.product();
    assert!(next.delivers("end", PATIENCE).await);
    assert_eq!(next.values(), ["end"], "the double must be seen to lose it");
}

pub(crate) async fn one_huge_transaction_is_paged(database: TestDatabase<Postgres>) {
    const EVENTS: usize = 30_000;
    let shop = Shop::open(database).await;
    let small: Vec<_> = (0..EVENTS).map(|number| format!("{number:0200}")).collect();
    let large = "x".repeat(900_000);
    for page in [777, 10_000] {
        let mut tx = shop.pool().begin().await.unwrap();
        let events: Vec<_> = small.iter().map(|value| Event::new("moves", "k").bytes(value.as_str())).collect();
        shop.outbox.append_all(&mut tx, &events).await.unwrap();
        for _ in 0..40 {
            shop.append(&mut tx, "k", &large).await;
        }
        tx.commit().await.unwrap();
        let sink = MemorySink::default();
        let relay = shop.outbox.relay(shop.pool(), sink.clone()).page(page).build().unwrap();
        let running = tokio::spawn(relay.run(CancellationToken::new()));
        let published = tokio::time::timeout(PATIENCE, sink.wait_for(EVENTS + 40)).await;
        let published: Vec<_> = published.expect("all are published").iter().map(value_of).collect();
        assert!(published[..EVENTS] == small && published[EVENTS..].iter().all(|value| *value == large), "page {page}");
        assert!(shop.catches_up().await, "page {page}");
        assert_eq!(sink.events().len(), EVENTS + 40, "page {page}");
        running.abort();
        let _ = running.await;
    }
}

pub(crate) async fn refused_event_stops_the_relay_before_it(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    for value in ["1", "2", "bad", "4"] {
        shop.commit("k", value).await;
    }
    let sink = Refusing::default();
    let run = || shop.outbox.relay(shop.pool(), sink.clone()).build().unwrap().run(CancellationToken::new());
    assert!(matches!(run().await, Err(Error::Refused { .. })));
    // Started again it goes on at the refused event: the prefix was noted, and the slot was given back.
    assert!(matches!(run().await, Err(Error::Refused { .. })));
    assert_eq!(*sink.0.lock().unwrap(), ["1", "2"]);
    // There is no table to park it in.
    let relay = shop.outbox.relay(shop.pool(), sink.clone()).on_refusal(OnRefusal::BlockKey).build().unwrap();
    let stopped = relay.run(CancellationToken::new()).await;
    assert!(matches!(stopped, Err(Error::Wal(WalError::NoParking { .. }))), "{stopped:?}");
    let product = shop.product();
    assert!(product.delivers("4", PATIENCE).await, "nothing was passed over");
    assert!(product.values().starts_with(&["bad".to_owned()]));
}
