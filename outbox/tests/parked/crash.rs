//! A relay that is killed while it sends what an operator asked for.

use std::collections::HashSet;
use std::time::Duration;

use leastlock_outbox::{Asked, Batch, LoggedEvent, OutboxSql, Refusal, Relay, Retry, Sink};
use leastlock_testkit::process::{Child, child_role, speak};
use leastlock_testkit::{TestDatabase, TestEngine};
use tokio_util::sync::CancellationToken;

use crate::world::{LEASE, PATIENCE, Picky, Refuses, TOPIC, World, value};

const DRAINER: &str = "crash::drainer";
/// More than are written in one step, so that some are, and some are not.
const EVENTS: usize = 150;
const KILLED_AT: usize = 100;

pub(crate) async fn b7_relay_killed_while_it_drains_is_followed_in_order<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let world = World::new(database).await;
    let sink = Picky::new(Refuses::Beforehand, &["a000"]);
    let relay = world.relay(&sink);
    let values: Vec<String> = (0..EVENTS).map(|number| format!("a{number:03}")).collect();
    let mut ids = Vec::new();
    for value in &values {
        ids.push(world.commit("a", value).await.to_string());
    }
    world.comes_to_park(EVENTS).await;
    relay.end().await;
    let key = Retry::Key { topic: TOPIC, key: b"a" };
    assert_eq!(world.parked.retry(&key, "ann", "mended").await.unwrap(), Asked::Done { queues: 1 });

    let mut child = Child::rerun(DRAINER, &[("DATABASE", &world.database.url)]);
    child.line_containing(&format!("sent {} ", values[KILLED_AT]), PATIENCE);
    child.kill();
    let before: Vec<(String, String)> = child.lines().iter().filter_map(|line| sent(line)).collect();
    let left = world.list().await.len();
    assert!(left > 0 && left < EVENTS, "killed in the middle: {left} are left");

    sink.mend_all();
    world.commit("a", "a150").await;
    let relay = world.relay(&sink);
    world.comes_to_park(0).await;
    let after: Vec<(String, String)> =
        sink.events().iter().map(|event| (value(event), event.event_id.to_string())).collect();
    relay.end().await;
    let mut seen = HashSet::new();
    let first: Vec<_> = before.iter().chain(&after).filter(|(_, id)| seen.insert(id.clone())).collect();
    let (first_values, first_ids): (Vec<String>, Vec<String>) = first.into_iter().cloned().unzip();
    assert_eq!(first_values[..EVENTS], values, "first occurrences are in order, and none is lost");
    assert_eq!(first_ids[..EVENTS], ids, "a repeat bears the id that it had");
    assert!(before.len() + after.len() - first_values.len() <= 64, "no more than one step is repeated");
}

fn sent(line: &str) -> Option<(String, String)> {
    let mut words = line.strip_prefix("sent ")?.split(' ').map(str::to_owned);
    Some((words.next()?, words.next()?))
}

/// Says what it is given.
struct Speaking;

impl Sink for Speaking {
    async fn check(&self, _events: &[LoggedEvent]) -> Vec<Refusal> {
        Vec::new()
    }

    async fn send(&self, batch: Batch) {
        for event in batch.events() {
            speak(format!("sent {} {}", value(event), event.event_id));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        batch.published();
    }

    fn abandon(&self) {}
}

/// The child's part; see [`b7_relay_killed_while_it_drains_is_followed_in_order`].
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drainer() {
    if !child_role(DRAINER) {
        return;
    }
    let url = std::env::var("DATABASE").expect("the parent says it");
    #[cfg(feature = "sqlite")]
    if url.starts_with("sqlite") {
        drain::<sqlx::Sqlite>(&url).await;
    }
    #[cfg(feature = "postgres")]
    if url.starts_with("postgres") {
        drain::<sqlx::Postgres>(&url).await;
    }
    #[cfg(feature = "mysql")]
    if url.starts_with("mysql") {
        drain::<sqlx::MySql>(&url).await;
    }
}

async fn drain<DB: TestEngine + OutboxSql>(url: &str) {
    let pool = DB::connect(url).await;
    let relay = Relay::builder(&pool, Speaking).lease(LEASE).build().expect("valid settings");
    relay.run(CancellationToken::new()).await.expect("it runs until it is killed");
}
