//! What an operator can do.

use std::time::{Duration, Instant};

use leastlock_core::Statement;
use leastlock_outbox::{Asked, Error, Event, EventId, Filter, OnRefusal, OutboxSql, Retry};
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::world::{Picky, Refuses, Running, TOPIC, World, until};

/// A relay at work and a key `a` whose first event is bad, with others parked behind it.
async fn blocked<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
    values: &[&str],
    bad: &[&str],
) -> (World<DB>, Picky, Running, Vec<EventId>) {
    let world = World::new(database).await;
    let sink = Picky::new(Refuses::Beforehand, bad);
    let relay = world.relay(&sink);
    let ids = world.commit_all(values).await;
    world.comes_to_park(values.len()).await;
    (world, sink, relay, ids)
}

fn key(key: &str) -> Retry<'_> {
    Retry::Key { topic: TOPIC, key: key.as_bytes() }
}

const DONE: Asked = Asked::Done { queues: 1 };

pub(crate) async fn b7_retried_key_leaves_in_order_while_later_events_arrive<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let values: Vec<String> = (0..200).map(|number| format!("a{number:03}")).collect();
    let (world, sink, relay, _) =
        blocked(database, &values[..120].iter().map(String::as_str).collect::<Vec<_>>(), &["a000"]).await;
    sink.mend("a000");
    assert_eq!(world.parked.retry(&key("a"), "ann", "mended").await.unwrap(), DONE);
    for value in &values[120..] {
        world.commit("a", value).await;
    }
    until("all arrive", || sink.of_key("a").len() == values.len()).await;
    assert_eq!(sink.of_key("a"), values, "nothing overtakes");
    world.comes_to_park(0).await;
    assert_eq!(world.database.int("SELECT count(*) FROM leastlock_outbox_parked_queue").await, 0);
    // The key is free: its events are not parked any more, once the relay has heard of the end of its own transaction.
    let mut more = (200..300).map(|number| format!("a{number}"));
    loop {
        let parked = relay.stats.parked();
        let value = more.next().expect("the key goes on being parked");
        world.commit("a", &value).await;
        until("it arrives", || sink.of_key("a").last() == Some(&value)).await;
        if relay.stats.parked() == parked {
            break;
        }
    }
    relay.end().await;
}

pub(crate) async fn event_that_is_refused_again_stays_with_its_key<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (world, sink, relay, ids) = blocked(database, &["a1", "a2", "a3"], &["a1", "a3"]).await;
    for attempts in 1..=2 {
        assert_eq!(world.parked.retry(&key("a"), "ann", "hopes").await.unwrap(), DONE);
        until_attempts(&world, ids[0], attempts).await;
    }
    assert_eq!((world.comes_to_park(3).await.len(), sink.events().len()), (3, 0));
    // Now the first is sent, the second follows, and the third blocks the key.
    sink.mend("a1");
    assert_eq!(world.parked.retry(&Retry::Event(ids[0]), "ann", "mended").await.unwrap(), DONE);
    let parked = world.comes_to_park(1).await;
    assert_eq!((parked[0].event_id, parked[0].refused, parked[0].attempts), (ids[2], true, 1));
    world.commit("a", "a4").await;
    world.comes_to_park(2).await;
    assert_eq!(sink.of_key("a"), ["a1", "a2"]);
    relay.end().await;
}

async fn until_attempts<DB: TestEngine + OutboxSql>(world: &World<DB>, event: EventId, attempts: u64) {
    let counted = async || {
        let list = world.list().await;
        let event = list.iter().find(|parked| parked.event_id == event).expect("it is parked");
        event.attempts == attempts && !event.under_way
    };
    leastlock_testkit::until("the attempt is counted", crate::world::PATIENCE, counted).await;
}

pub(crate) async fn retry_that_is_asked_for_twice_is_done_once<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let (world, sink, relay, ids) = blocked(database, &["a1", "a2"], &["a1"]).await;
    relay.end().await;
    sink.mend("a1");
    assert_eq!(world.parked.retry(&key("a"), "ann", "mended").await.unwrap(), DONE);
    for again in [key("a"), Retry::Event(ids[0])] {
        assert_eq!(world.parked.retry(&again, "bob", "mended").await.unwrap(), Asked::UnderWay);
    }
    assert_eq!(world.parked.retry(&Retry::Topic(TOPIC), "bob", "mended").await.unwrap(), Asked::NotParked);
    let relay = world.relay(&sink);
    world.comes_to_park(0).await;
    assert_eq!(sink.of_key("a"), ["a1", "a2"]);
    assert_eq!(sink.events().len(), 2, "each is sent once");
    for late in [key("a"), Retry::Event(ids[0])] {
        assert_eq!(world.parked.retry(&late, "bob", "mended").await.unwrap(), Asked::NotParked);
    }
    let history = world.parked.history(None, 10).await.unwrap();
    assert_eq!(history.len(), 1, "what changed nothing is not in the audit");
    assert_eq!((history[0].actor.as_str(), history[0].action.as_str()), ("ann", "retry"));
    relay.end().await;
}

pub(crate) async fn retry_of_a_topic_takes_all_of_its_keys<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let world = World::new(database).await;
    let sink = Picky::new(Refuses::Beforehand, &["a1", "b1", "c1", "alone"]);
    let relay = world.relay(&sink);
    world.commit_all(&["a1", "b1", "a2"]).await;
    world.append(Event::without_key(TOPIC).bytes("alone")).await;
    world.append(Event::new("elsewhere", "c").bytes("c1")).await;
    world.comes_to_park(5).await;
    sink.mend_all();
    let asked = world.parked.retry(&Retry::Topic(TOPIC), "ann", "made the topic").await.unwrap();
    assert_eq!(asked, Asked::Done { queues: 3 });
    assert_eq!(asked.to_string(), "written for 3 keys or single events; a relay sends what is to be sent");
    let left = world.comes_to_park(1).await;
    assert_eq!(left[0].topic, "elsewhere");
    assert_eq!(sink.of_key("a"), ["a1", "a2"]);
    assert_eq!(sink.events().len(), 4);
    let history = world.parked.history(None, 10).await.unwrap();
    assert_eq!((history.len(), history[0].queues, history[0].topic.as_str()), (1, 3, TOPIC));
    relay.end().await;
}

/// More keys than one step takes, all of them still bad, and a relay that parks them again at once.
pub(crate) async fn retry_of_a_topic_asks_once_for_each_key<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    const KEYS: usize = 1_100;
    let world = World::new(database).await;
    let sink = Picky::new(Refuses::Beforehand, &["bad"]);
    let relay = world.relay(&sink);
    let mut tx = world.database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    let events: Vec<Event> = (0..KEYS).map(|key| Event::new(TOPIC, key.to_string()).bytes("bad")).collect();
    world.outbox.append_all(&mut tx, &events).await.unwrap();
    tx.commit().await.unwrap();
    until("all are parked", || relay.stats.parked() == KEYS as u64).await;
    let asked = world.parked.retry(&Retry::Topic(TOPIC), "ann", "hopes").await.unwrap();
    assert_eq!(asked, Asked::Done { queues: KEYS as u64 });
    let tried = "SELECT count(*) FROM leastlock_outbox_parked WHERE attempts = 1";
    // Each is a transaction of its own. So many take long where commits are slow; what must not be is that it stands still.
    let (mut seen, mut since) = (0, Instant::now());
    while seen != i64::try_from(KEYS).unwrap() {
        let found = world.database.int(tried).await;
        if found != seen {
            (seen, since) = (found, Instant::now());
        }
        assert!(since.elapsed() < crate::world::PATIENCE, "{seen} are tried, and no more");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let history = world.parked.history(None, 10).await.unwrap();
    assert_eq!(history.iter().map(|action| action.queues).collect::<Vec<_>>(), [100, 1_000]);
    relay.end().await;
}

pub(crate) async fn only_the_first_event_of_a_key_is_retried<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let (world, sink, relay, ids) = blocked(database, &["a1", "a2"], &["a1"]).await;
    let asked = world.parked.retry(&Retry::Event(ids[1]), "ann", "hurry").await.unwrap();
    assert_eq!(asked, Asked::Behind { first: ids[0] });
    assert!(asked.to_string().contains(&ids[0].to_string()), "{asked}");
    let unknown = world.parked.retry(&Retry::Event(EventId::new()), "ann", "hurry").await.unwrap();
    assert_eq!(unknown, Asked::NotParked);
    assert!(world.parked.history(None, 10).await.unwrap().is_empty());
    assert_eq!((world.count().await, sink.events().len()), (2, 0));
    relay.end().await;
}

pub(crate) async fn skipped_event_is_never_sent_and_its_key_goes_on<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (world, sink, relay, ids) = blocked(database, &["a1", "a2", "a3"], &["a1"]).await;
    // One from the middle: it is gone, and nothing moves.
    assert_eq!(world.parked.skip(ids[1], "ann", "wrong amount").await.unwrap(), DONE);
    assert_eq!(world.comes_to_park(2).await.len(), 2);
    assert_eq!(sink.events().len(), 0);
    // The one that blocks its key: the rest goes on, in order, and so do later events.
    assert_eq!(world.parked.skip(ids[0], "ann", "wrong amount").await.unwrap(), DONE);
    world.comes_to_park(0).await;
    world.commit("a", "a4").await;
    until("the key goes on", || sink.of_key("a") == ["a3", "a4"]).await;
    assert_eq!(world.parked.skip(ids[0], "ann", "wrong amount").await.unwrap(), Asked::NotParked);
    // The last one of a key: the key is free.
    sink.refuse("a5");
    let last = world.commit("a", "a5").await;
    world.comes_to_park(1).await;
    assert_eq!(world.parked.skip(last, "ann", "wrong amount").await.unwrap(), DONE);
    world.commit("a", "a6").await;
    until("the key goes on", || sink.of_key("a") == ["a3", "a4", "a6"]).await;
    world.comes_to_park(0).await;
    assert_eq!(world.database.int("SELECT count(*) FROM leastlock_outbox_parked_queue").await, 0);
    let actions: Vec<_> = world.parked.history(None, 10).await.unwrap().into_iter().rev().collect();
    assert_eq!(actions.iter().map(|action| action.event_id).collect::<Vec<_>>(), [ids[1], ids[0], last].map(Some));
    assert!(actions.iter().all(|action| action.action == "skip" && action.reason == "wrong amount"));
    relay.end().await;
}

pub(crate) async fn event_that_is_to_be_sent_is_not_skipped<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let (world, sink, relay, ids) = blocked(database, &["a1", "a2"], &["a1"]).await;
    relay.end().await;
    assert_eq!(world.parked.retry(&key("a"), "ann", "mended").await.unwrap(), DONE);
    for id in &ids {
        assert_eq!(world.parked.skip(*id, "bob", "wrong amount").await.unwrap(), Asked::UnderWay);
    }
    assert!(world.list().await.iter().all(|event| event.under_way));
    // Refused again it can be.
    let relay = world.relay(&sink);
    world.comes_to_park(2).await;
    assert_eq!(world.parked.skip(ids[0], "bob", "wrong amount").await.unwrap(), DONE);
    until("the rest goes on", || sink.of_key("a") == ["a2"]).await;
    relay.end().await;
}

pub(crate) async fn released_key_leaves_what_is_refused_again_behind<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (world, sink, relay, ids) = blocked(database, &["a1", "a2", "a3", "a4", "a5"], &["a1", "a3", "a4"]).await;
    assert_eq!(world.parked.release(TOPIC, b"a", "ann", "order does not matter here").await.unwrap(), DONE);
    let left = world.comes_to_park(3).await;
    assert_eq!(left.iter().map(|event| event.event_id).collect::<Vec<_>>(), [ids[0], ids[2], ids[3]]);
    assert!(left.iter().all(|event| !event.blocks && event.refused && event.attempts == 1), "{left:?}");
    world.commit("a", "a6").await;
    until("the key goes on", || sink.of_key("a") == ["a2", "a5", "a6"]).await;
    let again = world.parked.release(TOPIC, b"a", "ann", "order does not matter here").await.unwrap();
    assert_eq!(again, Asked::NotParked, "the key is free");
    // What was left behind is an event like any other that is parked alone.
    sink.mend("a3");
    assert_eq!(world.parked.retry(&Retry::Event(ids[2]), "ann", "mended").await.unwrap(), DONE);
    assert_eq!(world.parked.skip(ids[0], "ann", "too old").await.unwrap(), DONE);
    world.comes_to_park(1).await;
    assert_eq!(sink.of_key("a"), ["a2", "a5", "a6", "a3"]);
    relay.end().await;
}

pub(crate) async fn every_action_is_audited_or_not_done<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let (world, sink, relay, ids) = blocked(database, &["a1", "a2"], &["a1"]).await;
    for (actor, reason) in [("", "why"), ("ann", " "), (&"a".repeat(256), "why"), ("ann", &"r".repeat(4_001))] {
        let refused = world.parked.retry(&key("a"), actor, reason).await;
        assert!(matches!(refused, Err(Error::Unaccounted)), "{refused:?}");
        assert!(matches!(world.parked.skip(ids[0], actor, reason).await, Err(Error::Unaccounted)));
        assert!(matches!(world.parked.release(TOPIC, b"a", actor, reason).await, Err(Error::Unaccounted)));
    }
    // An audit that takes no row.
    execute::<DB>(&world, "ALTER TABLE leastlock_outbox_audit RENAME TO gone").await;
    for asked in [
        world.parked.retry(&key("a"), "ann", "mended").await,
        world.parked.retry(&Retry::Event(ids[0]), "ann", "mended").await,
        world.parked.retry(&Retry::Topic(TOPIC), "ann", "mended").await,
        world.parked.skip(ids[0], "ann", "wrong").await,
        world.parked.release(TOPIC, b"a", "ann", "wrong").await,
    ] {
        assert!(matches!(asked, Err(Error::Database { .. })), "{asked:?}");
    }
    assert!(world.list().await.iter().all(|event| !event.under_way));
    assert_eq!((world.count().await, sink.events().len()), (2, 0));
    execute::<DB>(&world, "ALTER TABLE gone RENAME TO leastlock_outbox_audit").await;
    sink.mend("a1");
    assert_eq!(world.parked.retry(&key("a"), "ann", "created it, see OPS-7").await.unwrap(), DONE);
    world.comes_to_park(0).await;
    let history = world.parked.history(None, 10).await.unwrap();
    assert_eq!(history.len(), 1);
    let action = &history[0];
    assert_eq!((action.actor.as_str(), action.reason.as_str()), ("ann", "created it, see OPS-7"));
    assert_eq!((action.topic.as_str(), action.key.as_deref(), action.event_id), (TOPIC, Some(&b"a"[..]), None));
    assert!(world.parked.history(Some(action.id), 10).await.unwrap().is_empty());
    relay.end().await;
}

async fn execute<DB: TestEngine + OutboxSql>(world: &World<DB>, sql: &'static str) {
    let mut connection = world.database.pool.acquire().await.unwrap();
    Statement::new(sql).execute::<DB>(&mut connection).await.unwrap();
}

pub(crate) async fn parked_events_are_listed_in_pages<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let world = World::new(database).await;
    let sink = Picky::new(Refuses::Beforehand, &["a1", "b1", "c1"]);
    let relay = world.relay_with(&sink, OnRefusal::BlockKey, 200, 10_000);
    let ids = world.commit_all(&["a1", "b1", "a2", "b2", "a3", "c1"]).await;
    let all = world.comes_to_park(6).await;
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let page = world.parked.list(&Filter::all(), after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.place);
        pages.extend(page);
    }
    let names =
        |events: &[leastlock_outbox::ParkedEvent]| events.iter().map(|event| event.event_id).collect::<Vec<_>>();
    assert_eq!(names(&pages), names(&all));
    let of_a = world.parked.list(&Filter::key(TOPIC, "a"), None, 10).await.unwrap();
    assert_eq!(names(&of_a), [ids[0], ids[2], ids[4]]);
    assert_eq!(of_a[0].value_bytes, Some(2));
    let refused = world.parked.list(&Filter::topic(TOPIC).refused(), None, 10).await.unwrap();
    assert_eq!(refused.len(), 3);
    assert!(world.parked.list(&Filter::topic("elsewhere"), None, 10).await.unwrap().is_empty());
    let count = world.parked.count(&Filter::all()).await.unwrap();
    assert_eq!((count.events, count.refused, count.keys), (6, 3, 3));
    assert!(count.oldest.is_some_and(|oldest| oldest < crate::world::PATIENCE));
    let nothing = world.parked.count(&Filter::topic("elsewhere")).await.unwrap();
    assert_eq!((nothing.events, nothing.oldest), (0, None));
    relay.end().await;
}
