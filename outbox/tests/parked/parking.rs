//! What is parked, and what goes on.

use std::time::Duration;

use leastlock_core::Statement;
use leastlock_outbox::{Batch, Error, Event, LoggedEvent, OnRefusal, OutboxSql, Refusal, Relay, Retry, Sink};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Pool;

use crate::world::{LEASE, PATIENCE, Picky, Refuses, Running, TOPIC, World, until, value};

/// A key with a bad event in its middle, and two innocent keys; answers what arrived of each.
async fn what_arrives<DB: TestEngine + OutboxSql>(policy: OnRefusal, database: TestDatabase<DB>) -> [Vec<String>; 3] {
    let world = World::new(database).await;
    let sink = Picky::new(Refuses::Beforehand, &["a2"]);
    let relay = world.relay_with(&sink, policy, 200, 10_000);
    world.commit_all(&["a1", "b1", "a2"]).await;
    until("it has come to the bad event", || relay.stats.parked() > 0 || relay.task.is_finished()).await;
    world.commit_all(&["b2", "a3", "c1"]).await;
    // A double that never delivers them all is given up on.
    let _ = tokio::time::timeout(Duration::from_secs(3), async {
        while sink.of_key("c").is_empty()
            || sink.of_key("b").len() < 2
            || world.count().await + sink.of_key("a").len() as u64 != 3
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    relay.crash().await;
    ["a", "b", "c"].map(|key| sink.of_key(key))
}

/// The key stops before the bad event, and the others are whole.
fn only_its_key_is_blocked(arrived: &[Vec<String>; 3]) -> bool {
    *arrived == [vec!["a1".to_owned()], vec!["b1".into(), "b2".into()], vec!["c1".into()]]
}

pub(crate) async fn b7_refused_event_is_parked_with_its_key_and_all_others_go_on<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    // What other relays do: go on with the key, or with nothing. That something does not arrive takes its time.
    let (right, alone, halted) = tokio::join!(
        what_arrives(OnRefusal::BlockKey, database),
        async { what_arrives(OnRefusal::ParkAlone, TestDatabase::<DB>::create().await).await },
        async { what_arrives(OnRefusal::Halt, TestDatabase::<DB>::create().await).await },
    );
    assert!(only_its_key_is_blocked(&right), "{right:?}");
    for double in [alone, halted] {
        assert!(!only_its_key_is_blocked(&double), "the double must be seen: {double:?}");
    }

    let world = World::new(TestDatabase::<DB>::create().await).await;
    let sink = Picky::new(Refuses::Beforehand, &["a2"]);
    let relay = world.relay(&sink);
    let ids = world.commit_all(&["a1", "b1", "a2", "b2", "a3", "c1"]).await;
    let parked = world.comes_to_park(2).await;
    until("the innocent keys arrive", || sink.of_key("b").len() == 2 && sink.of_key("c").len() == 1).await;
    assert_eq!((parked[0].event_id, parked[1].event_id), (ids[2], ids[4]));
    assert!(parked[0].refused && parked[0].blocks && !parked[1].refused, "{parked:?}");
    assert_eq!((parked[0].reason.as_str(), parked[0].attempts), ("it is bad", 0));
    assert_eq!(parked[0].key.as_deref(), Some(&b"a"[..]));
    let whole = world.parked.read(ids[2]).await.unwrap().expect("it is parked");
    assert_eq!((value(&whole), whole.topic.as_str()), ("a2".to_owned(), TOPIC));
    until("both are counted", || relay.stats.parked() == 2 && relay.stats.published() == 4).await;
    assert_eq!(relay.stats.overtaking(), 0);
    relay.end().await;
}

pub(crate) async fn b7_event_refused_among_others_is_parked_alone_with_its_key<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let world = World::new(database).await;
    let sink = Picky::new(Refuses::AmongOthers, &["a2"]);
    // One batch of innocents and the bad one, and one behind it, which overtakes.
    let mut tx = world.database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    for name in ["a1", "b1", "a2", "c1", "a3", "b2", "d1", "a4"] {
        world.outbox.append(&mut tx, Event::new(TOPIC, &name[..1]).bytes(name)).await.unwrap();
    }
    tx.commit().await.unwrap();
    let relay = world.relay_with(&sink, OnRefusal::BlockKey, 4, 10_000);
    until("every innocent arrives", || {
        ["b", "c", "d"].map(|key| sink.of_key(key).len()) == [2, 1, 1] && !sink.of_key("a").is_empty()
    })
    .await;
    until("it is parked", || relay.stats.parked() > 0).await;
    let parked = world.list().await;
    assert!(parked.iter().all(|event| event.key.as_deref() == Some(b"a")), "only its key: {parked:?}");
    let refused: Vec<_> = parked.iter().filter(|event| event.refused).collect();
    assert_eq!(refused.len(), 1, "{parked:?}");
    assert_eq!(value(&world.parked.read(refused[0].event_id).await.unwrap().unwrap()), "a2");
    // Whatever arrived of the key behind the bad event is reported, and nothing of it arrives from here on.
    let arrived = sink.of_key("a").iter().filter(|value| ["a3", "a4"].contains(&value.as_str())).count() as u64;
    assert!(relay.stats.overtaking() >= arrived, "{} of {arrived} are reported", relay.stats.overtaking());
    if arrived > 0 {
        assert!(refused[0].reason.contains("overtaken"), "{}", refused[0].reason);
    }
    assert_eq!(parked.len() as u64 + arrived, 3);
    world.commit("a", "a5").await;
    world.comes_to_park(parked.len() + 1).await;
    relay.end().await;
}

/// All of a key in one batch that fails: the second must not be sent alone once the first is parked.
pub(crate) async fn b7_event_of_a_key_that_was_blocked_meanwhile_is_not_sent_again<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let world = World::new(database).await;
    let sink = Picky::new(Refuses::AmongOthers, &["a1"]);
    let mut tx = world.database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    for name in ["a1", "a2", "a3"] {
        world.outbox.append(&mut tx, Event::new(TOPIC, "a").bytes(name)).await.unwrap();
    }
    tx.commit().await.unwrap();
    let relay = world.relay(&sink);
    let parked = world.comes_to_park(3).await;
    assert_eq!(parked.iter().map(|event| event.refused).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(sink.events(), []);
    relay.end().await;
}

pub(crate) async fn b7_blocked_key_stays_blocked_for_the_next_relay<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let world = World::new(database).await;
    let sink = Picky::new(Refuses::Beforehand, &["a1"]);
    let first = world.relay(&sink);
    world.commit_all(&["a1", "b1"]).await;
    world.comes_to_park(1).await;
    first.crash().await;
    let second = world.relay(&sink);
    world.commit_all(&["a2", "b2"]).await;
    world.comes_to_park(2).await;
    until("the innocent key goes on", || sink.of_key("b") == ["b1", "b2"]).await;
    assert_eq!(sink.of_key("a"), Vec::<String>::new());
    second.end().await;
    let third = world.relay(&sink);
    world.commit_all(&["a3", "b3"]).await;
    world.comes_to_park(3).await;
    until("the innocent key goes on", || sink.of_key("b").len() == 3).await;
    third.end().await;
}

pub(crate) async fn b7_more_blocked_keys_than_memory_holds_stay_blocked<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let world = World::new(database).await;
    let keys: Vec<String> = ('a'..='z').map(String::from).collect();
    let bad: Vec<String> = keys.iter().filter(|key| *key != "q").map(|key| format!("{key}1")).collect();
    let sink = Picky::new(Refuses::Beforehand, &bad.iter().map(String::as_str).collect::<Vec<_>>());
    // Three are kept: far fewer than are blocked, in each shard and in one.
    let relay = || world.relay_with(&sink, OnRefusal::BlockKey, 3, 3);
    let first = relay();
    let mut expected = 0;
    for round in 1..=3 {
        for key in &keys {
            world.commit(key, &format!("{key}{round}")).await;
        }
        expected += bad.len();
        world.comes_to_park(expected).await;
    }
    until("the one that is not bad goes on", || sink.of_key("q") == ["q1", "q2", "q3"]).await;
    first.crash().await;
    let second = relay();
    for key in &keys {
        world.commit(key, &format!("{key}4")).await;
    }
    world.comes_to_park(expected + bad.len()).await;
    until("it goes on", || sink.of_key("q").len() == 4).await;
    assert!(sink.events().iter().all(|event| event.key.as_deref() == Some(b"q")));
    sink.mend_all();
    let asked = world.parked.retry(&Retry::Topic(TOPIC), "ann", "mended").await.unwrap();
    assert_eq!(asked, leastlock_outbox::Asked::Done { queues: bad.len() as u64 });
    world.comes_to_park(0).await;
    for key in &keys {
        world.commit(key, &format!("{key}5")).await;
    }
    let in_order = |key: &String| sink.of_key(key) == (1..=5).map(|n| format!("{key}{n}")).collect::<Vec<_>>();
    until("every key is whole and in order", || keys.iter().all(in_order)).await;
    second.end().await;
}

pub(crate) async fn event_without_a_key_is_parked_alone<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let world = World::new(database).await;
    let sink = Picky::new(Refuses::Beforehand, &["bad"]);
    let relay = world.relay(&sink);
    let bad = world.append(Event::without_key(TOPIC).bytes("bad")).await;
    world.append(Event::without_key(TOPIC).bytes("good")).await;
    let parked = world.comes_to_park(1).await;
    assert_eq!((parked[0].event_id, parked[0].refused, parked[0].blocks), (bad, true, false));
    until("the other is sent", || sink.events().len() == 1).await;
    sink.mend("bad");
    assert!(matches!(
        world.parked.retry(&Retry::Event(bad), "ann", "mended").await.unwrap(),
        leastlock_outbox::Asked::Done { queues: 1 }
    ));
    world.comes_to_park(0).await;
    assert_eq!(sink.events().last().unwrap().event_id, bad);
    relay.end().await;
}

pub(crate) async fn policies_are_by_topic<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let world = World::new(database).await;
    let sink = Picky::new(Refuses::Beforehand, &["bad", "last"]);
    let relay = || {
        let relay = Relay::builder(&world.database.pool, sink.clone()).lease(LEASE);
        let relay = relay.on_refusal_in("skipped", OnRefusal::ParkAlone).on_refusal_in("halted", OnRefusal::Halt);
        Running::start(relay.build().unwrap())
    };
    for (topic, value) in [("skipped", "bad"), ("skipped", "s2"), (TOPIC, "bad"), (TOPIC, "m2")] {
        world.append(Event::new(topic, "k").bytes(value)).await;
    }
    let running = relay();
    let parked = world.comes_to_park(3).await;
    let alone: Vec<_> = parked.iter().filter(|event| !event.blocks).collect();
    assert_eq!((alone.len(), alone[0].topic.as_str()), (1, "skipped"));
    until("the key of what was skipped goes on", || sink.of_key("k") == ["s2"]).await;
    let halted = world.append(Event::new("halted", "k").bytes("last")).await;
    let ended = tokio::time::timeout(PATIENCE, running.task).await.expect("it stops").unwrap();
    assert!(matches!(ended, Err(Error::Refused { event_id, .. }) if event_id == halted), "{ended:?}");
    assert_eq!(world.count().await, 3);
}

pub(crate) async fn b8_sink_that_is_away_parks_nothing_and_uses_up_no_attempt<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let world = World::new(database).await;
    let sink = Picky::new(Refuses::Beforehand, &["a1"]);
    let relay = world.relay(&sink);
    let first = world.commit("a", "a1").await;
    world.comes_to_park(1).await;
    sink.go_away(true);
    let before = sink.attempts_while_away();
    world.commit_all(&["a2", "b1", "b2"]).await;
    sink.mend("a1");
    let retry = world.parked.retry(&Retry::Event(first), "ann", "mended").await.unwrap();
    assert_eq!(retry, leastlock_outbox::Asked::Done { queues: 1 });
    until("it is tried many times", || sink.attempts_while_away() > before + 10).await;
    let parked = world.list().await;
    assert!(parked.iter().all(|event| event.attempts == 0 && event.key.as_deref() == Some(b"a")), "{parked:?}");
    assert_eq!(sink.events(), []);
    sink.go_away(false);
    until("all arrive", || sink.of_key("a") == ["a1", "a2"] && sink.of_key("b") == ["b1", "b2"]).await;
    world.comes_to_park(0).await;
    relay.end().await;
}

/// Refuses everything, and has another relay take every shard over first.
struct TakenOver<DB: TestEngine> {
    pool: Pool<DB>,
    refuses: bool,
}

impl<DB: TestEngine> Sink for TakenOver<DB> {
    async fn check(&self, events: &[LoggedEvent]) -> Vec<Refusal> {
        let mut connection = self.pool.acquire().await.unwrap();
        let take = "UPDATE leastlock_outbox_shard SET owner = 'another', epoch = epoch + 1";
        Statement::new(take).execute::<DB>(&mut connection).await.unwrap();
        let all = events.iter().enumerate().filter(|_| self.refuses);
        all.map(|(index, _)| Refusal { index, reason: "it is bad".into() }).collect()
    }

    async fn send(&self, batch: Batch) {
        batch.published();
    }

    fn abandon(&self) {}
}

impl<DB: TestEngine + OutboxSql> World<DB> {
    /// Waits until the shards were claimed and taken away, and claimed and taken away again.
    async fn taken_over_twice(&self) {
        let epoch = "SELECT max(epoch) FROM leastlock_outbox_shard";
        let until = self.database.int(epoch).await + 4;
        let comes = async {
            while self.database.int(epoch).await < until {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, comes).await.expect("the shards are taken over");
    }
}

pub(crate) async fn fenced_relay_parks_nothing<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let world = World::new(database).await;
    world.commit("a", "a1").await;
    let sink = TakenOver { pool: world.database.pool.clone(), refuses: true };
    let relay = Running::start(Relay::builder(&world.database.pool, sink).lease(LEASE).build().unwrap());
    world.taken_over_twice().await;
    assert_eq!((relay.stats.parked(), world.count().await), (0, 0));
    assert_eq!(world.database.int("SELECT count(*) FROM leastlock_outbox_parked_queue").await, 0);
    relay.crash().await;
}

pub(crate) async fn fenced_relay_settles_nothing<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let world = World::new(database).await;
    let sink = Picky::new(Refuses::Beforehand, &["a1"]);
    let relay = world.relay(&sink);
    let id = world.commit("a", "a1").await;
    world.comes_to_park(1).await;
    relay.end().await;
    let _ = world.parked.retry(&Retry::Event(id), "ann", "mended").await.unwrap();
    let sink = TakenOver { pool: world.database.pool.clone(), refuses: false };
    let relay = Running::start(Relay::builder(&world.database.pool, sink).lease(LEASE).build().unwrap());
    world.taken_over_twice().await;
    relay.crash().await;
    let parked = world.list().await;
    assert_eq!((parked.len(), parked[0].under_way), (1, true), "what a fenced relay sent is not written as sent");
    let sink = Picky::new(Refuses::Beforehand, &[]);
    let relay = world.relay(&sink);
    world.comes_to_park(0).await;
    assert_eq!(sink.of_key("a"), ["a1"]);
    relay.end().await;
}
