//! An event that no relay can read, though its table could not see that.

use leastlock_core::{Engine, Statement};
use leastlock_outbox::{Asked, Error, EventId, OnRefusal, OutboxSql, Retry};
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::world::{Picky, Refuses, TOPIC, World, until};

const BAD: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// Commits an event behind `a0`, with half of a surrogate pair in a header: a table takes it for JSON.
async fn write_bad<DB: TestEngine + OutboxSql>(world: &World<DB>) {
    let insert = match DB::ENGINE {
        Engine::Sqlite => {
            r#"INSERT INTO leastlock_outbox (event_id, topic, key, value, headers)
               SELECT '01890a5d-ac96-774b-bcce-b302099a8057', topic, key, CAST('a1' AS BLOB), '[["h","\ud800"]]'
               FROM leastlock_outbox"#
        }
        Engine::Postgres => {
            r#"INSERT INTO leastlock_outbox (shard, event_id, topic, key, value, headers)
               SELECT shard, '01890a5d-ac96-774b-bcce-b302099a8057', topic, key, 'a1', '[["h","\ud800"]]'
               FROM leastlock_outbox"#
        }
        _ => {
            r#"INSERT INTO leastlock_outbox (shard, event_id, topic, `key`, value, headers)
               SELECT shard, '01890a5d-ac96-774b-bcce-b302099a8057', topic, `key`, 'a1', '[["h","\\ud800"]]'
               FROM leastlock_outbox"#
        }
    };
    let mut connection = world.database.pool.acquire().await.unwrap();
    Statement::new(insert).execute::<DB>(&mut connection).await.unwrap();
}

pub(crate) async fn b7_event_that_cannot_be_read_is_parked_with_its_key_and_all_others_go_on<
    DB: TestEngine + OutboxSql,
>(
    database: TestDatabase<DB>,
) {
    let world = World::new(database).await;
    let sink = Picky::new(Refuses::Beforehand, &[]);
    world.commit("a", "a0").await;
    write_bad(&world).await;
    world.commit_all(&["a2", "b1"]).await;
    let relay = world.relay(&sink);
    let parked = world.comes_to_park(2).await;
    let bad = EventId::parse(BAD).unwrap();
    assert_eq!(parked[0].event_id, bad);
    assert!(parked[0].refused && parked[0].reason.contains("headers") && !parked[1].refused, "{parked:?}");
    until("the other key goes on", || sink.of_key("b") == ["b1"]).await;
    assert_eq!(sink.of_key("a"), ["a0"]);
    let read = world.parked.read(bad).await;
    assert!(matches!(read, Err(Error::Malformed { .. })), "{read:?}");
    // Trying again changes nothing; an operator can only take it away.
    let retry = Retry::Key { topic: TOPIC, key: b"a" };
    assert_eq!(world.parked.retry(&retry, "ann", "again").await.unwrap(), Asked::Done { queues: 1 });
    leastlock_testkit::until("it is refused again", crate::world::PATIENCE, async || {
        world.list().await.iter().any(|event| event.attempts == 1)
    })
    .await;
    world.comes_to_park(2).await;
    assert!(matches!(world.parked.skip(bad, "ann", "it cannot be read").await.unwrap(), Asked::Done { .. }));
    until("what was behind it leaves", || sink.of_key("a") == ["a0", "a2"]).await;
    assert!(!relay.task.is_finished());
    relay.end().await;

    // The double ends before it, as relays did: nobody goes past it.
    let world = World::new(TestDatabase::<DB>::create().await).await;
    world.commit("a", "a0").await;
    write_bad(&world).await;
    let relay = world.relay_with(&Picky::new(Refuses::Beforehand, &[]), OnRefusal::Halt, 200, 10_000);
    let ended = tokio::time::timeout(crate::world::PATIENCE, relay.task).await.unwrap().unwrap();
    assert!(matches!(ended, Err(Error::Refused { event_id, .. }) if event_id == bad), "{ended:?}");
}
