//! A relay that is killed with events in flight.

use std::collections::BTreeSet;

use leastlock_core::{Engine, Statement};
use leastlock_outbox::{Batch, LoggedEvent, OutboxSql, Receipt, Refusal, Relay, Sink};
use leastlock_testkit::process::{Child, child_role, speak};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Pool;
use tokio_util::sync::CancellationToken;

use crate::answers::value;
use crate::readers::{LEASE, PATIENCE, Reading, append, tables};

const RELAY: &str = "killed::relay_to_be_killed";
const EVENTS: usize = 200;
/// What the sink of the child acknowledges before it falls silent.
const ACKNOWLEDGED: usize = 60;
const IN_FLIGHT: usize = 40;

/// Says what it is given, acknowledges the first events, and keeps the receipts of the others.
struct Speaking(std::sync::Mutex<(usize, Vec<Receipt>)>);

impl Sink for Speaking {
    async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
        Vec::new()
    }

    async fn send(&self, mut batch: Batch) {
        while let Some((event, receipt)) = batch.next() {
            speak(format_args!("sent {}", value(event)));
            let mut kept = self.0.lock().expect("no panic");
            kept.0 += 1;
            if kept.0 <= ACKNOWLEDGED {
                receipt.published();
            } else {
                kept.1.push(receipt);
            }
        }
    }

    fn abandon(&self) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relay_to_be_killed() {
    if !child_role(RELAY) {
        return;
    }
    let url = std::env::var("DATABASE").expect("the parent names it");
    let in_flight = std::env::var("IN_FLIGHT").expect("the parent says it").parse().expect("a number");
    match url.split(':').next() {
        #[cfg(feature = "sqlite")]
        Some("sqlite") => run(&leastlock_testkit::database::Sqlite::connect(&url).await, in_flight).await,
        #[cfg(feature = "mysql")]
        Some("mysql") => run(&leastlock_testkit::database::MySql::connect(&url).await, in_flight).await,
        #[cfg(feature = "postgres")]
        Some("postgres") => run(&leastlock_testkit::database::Postgres::connect(&url).await, in_flight).await,
        _ => panic!("an engine that this build has not: {url}"),
    }
}

async fn run<DB: TestEngine + OutboxSql>(pool: &Pool<DB>, in_flight: u32) {
    let sink = Speaking(std::sync::Mutex::default());
    let relay = Relay::builder(pool, sink).lease(LEASE).in_flight(in_flight).page(10).build().expect("valid settings");
    relay.run(CancellationToken::new()).await.expect("it runs until it is killed");
}

/// What the relay that died had sent, and what its successor sent.
struct Sent {
    before: Vec<String>,
    after: Vec<String>,
}

impl Sent {
    fn twice(&self) -> usize {
        let before: BTreeSet<_> = self.before.iter().collect();
        self.after.iter().filter(|value| before.contains(value)).count()
    }
}

/// Kills a relay once it has sent `enough` events.
async fn killed<DB: TestEngine + OutboxSql>(in_flight: usize, enough: usize) -> Sent {
    let (database, outbox) = tables(TestDatabase::<DB>::create().await).await;
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    for number in 0..EVENTS {
        append(&outbox, &mut tx, "k", &format!("{number:03}")).await;
    }
    tx.commit().await.unwrap();
    let limit = in_flight.to_string();
    let mut child = Child::rerun(RELAY, &[("DATABASE", &database.url), ("IN_FLIGHT", &limit)]);
    (0..enough).for_each(|_| drop(child.line_containing("sent ", PATIENCE)));
    child.kill();
    let sent = |line: String| line.split("sent ").nth(1).map(str::to_owned);
    let before: Vec<String> = child.lines().into_iter().filter_map(sent).collect();
    assert!(is_free_within_a_lease(&database).await, "a successor would wait longer than the lease");
    let successor = Reading::product(&database.pool);
    let last = format!("{:03}", EVENTS - 1);
    assert!(successor.delivers(&last, PATIENCE).await);
    Sent { before, after: successor.values() }
}

/// Whether every shard is free at the end of a lease that begins now.
async fn is_free_within_a_lease<DB: TestEngine + OutboxSql>(database: &TestDatabase<DB>) -> bool {
    let longer = match DB::ENGINE {
        Engine::Sqlite => {
            "SELECT count(*) FROM leastlock_outbox_shard \
             WHERE lease_until > CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + $1"
        }
        Engine::MySql => {
            "SELECT count(*) FROM leastlock_outbox_shard \
             WHERE lease_until > UTC_TIMESTAMP(6) + INTERVAL ? * 1000 MICROSECOND"
        }
        _ => {
            "SELECT count(*) FROM leastlock_outbox_shard \
             WHERE lease_until > clock_timestamp() + $1::bigint * interval '1 millisecond'"
        }
    };
    let mut connection = database.pool.acquire().await.unwrap();
    let lease_ms = i64::try_from(LEASE.as_millis()).unwrap();
    let longer = Statement::new(longer).bind(lease_ms).fetch_one::<DB>(&mut connection).await.unwrap();
    longer.int(0).unwrap() == 0
}

pub(crate) async fn b18_killed_relay_is_followed_and_repeats_no_more_than_was_in_flight<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let sent = killed::<DB>(IN_FLIGHT, ACKNOWLEDGED + IN_FLIGHT / 2).await;
    let mut first = BTreeSet::new();
    let in_order: Vec<_> = sent.before.iter().chain(&sent.after).filter(|value| first.insert(*value)).collect();
    assert_eq!(in_order.len(), EVENTS, "none is lost");
    assert!(in_order.is_sorted(), "first occurrences are in order");
    assert!(sent.twice() <= IN_FLIGHT, "{} events came twice", sent.twice());

    // The double: without a bound on what is in flight everything is sent, and most of it twice.
    let unbounded = killed::<DB>(1_000_000, EVENTS).await;
    assert!(unbounded.twice() > IN_FLIGHT, "the double must be seen to repeat more: {}", unbounded.twice());

    // The double: a lock that is meant to outlast any publishing.
    let (database, _) = tables(database).await;
    let claim = match DB::ENGINE {
        Engine::Sqlite => {
            "UPDATE leastlock_outbox_shard \
             SET lease_until = CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + 3600000"
        }
        Engine::MySql => "UPDATE leastlock_outbox_shard SET lease_until = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR",
        _ => "UPDATE leastlock_outbox_shard SET lease_until = clock_timestamp() + interval '1 hour'",
    };
    database.execute(claim).await;
    assert!(!is_free_within_a_lease(&database).await, "the double must be seen to keep others waiting");
}
