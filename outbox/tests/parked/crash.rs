//! A relay that is killed while it sends what an operator asked for.

use std::collections::HashSet;
use std::time::Duration;

use leastlock_outbox::{Asked, Batch, LoggedEvent, OutboxSql, Refusal, Relay, Retry, Sink};
use leastlock_testkit::process::{Child, child_role, speak};
use leastlock_testkit::{TestDatabase, TestEngine};
use tokio_util::sync::CancellationToken;

use crate::world::{LEASE, PATIENCE, Picky, Refuses, TOPIC, World, until, value};

const DRAINER: &str = "crash::drainer";
/// More than are written in one step, so that some are, and some are not.
const EVENTS: usize = 150;
const KILLED_AT: usize = 70;

/// A key with many parked events whose retry was asked for, and no relay.
async fn asked_for<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) -> (World<DB>, Picky, Vec<String>, Vec<String>) {
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
    (world, sink, values, ids)
}

pub(crate) async fn b7_relay_killed_while_it_drains_is_followed_in_order<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (world, sink, values, ids) = asked_for(database).await;
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

/// The relay is stopped, another sends the rest and what comes after it, and the first comes back.
pub(crate) async fn b7_relay_stopped_while_it_drains_brings_nothing_new_when_it_comes_back<
    DB: TestEngine + OutboxSql,
>(
    database: TestDatabase<DB>,
) {
    let (world, sink, values, ids) = asked_for(database).await;
    let mut child = Child::rerun(DRAINER, &[("DATABASE", &world.database.url)]);
    child.line_containing(&format!("sent {} ", values[KILLED_AT]), PATIENCE);
    child.stop();
    let before = child.lines().iter().filter_map(|line| sent(line)).count();
    sink.mend_all();
    let relay = world.relay(&sink);
    world.comes_to_park(0).await;
    let late = world.commit("a", "a150").await;
    until("what comes after it is sent", || sink.of_key("a").last().is_some_and(|last| last == "a150")).await;
    child.resume();
    relay.end().await;
    // Now it is the only one: that it sends this shows that whatever it had in mind is behind it.
    let last = world.commit("a", "a151").await;
    child.line_containing("sent a151 ", PATIENCE);
    child.kill();
    let lines: Vec<(String, String)> = child.lines().iter().filter_map(|line| sent(line)).collect();
    let events: Vec<(String, String)> =
        sink.events().iter().map(|event| (value(event), event.event_id.to_string())).collect();
    let mut seen = HashSet::new();
    let all = lines[..before].iter().chain(&events).chain(&lines[before..]);
    let first: Vec<String> = all.filter(|(_, id)| seen.insert(id.clone())).map(|(_, id)| id.clone()).collect();
    let expected: Vec<String> = ids.into_iter().chain([late.to_string(), last.to_string()]).collect();
    assert_eq!(first, expected, "what it had in flight are repeats");
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
            tokio::time::sleep(Duration::from_millis(4)).await;
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
