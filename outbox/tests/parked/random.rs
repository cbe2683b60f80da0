//! Relays that die, operators and writers, in any order.

use std::collections::HashSet;
use std::time::Duration;

use leastlock_outbox::{Asked, Event, EventId, OnRefusal, OutboxSql, Retry};
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::world::{PATIENCE, Picky, Refuses, TOPIC, World, append};

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];
/// A key that is never bad.
const INNOCENT: &str = "e";
const EVENTS: usize = 60;
const ACTIONS: usize = 120;

pub(crate) async fn b7_operators_and_relays_in_any_order_lose_and_invert_nothing<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let world = World::new(database).await;
    let sink = Picky::new(Refuses::Beforehand, &[]);
    for key in KEYS {
        for number in 0..EVENTS {
            if key != INNOCENT && random.u8(..) < 40 {
                sink.refuse(&format!("{key}{number:03}"));
            }
        }
    }
    let writers: Vec<_> = KEYS
        .map(|key| {
            let (outbox, pool) = (world.outbox.clone(), world.database.pool.clone());
            tokio::spawn(async move {
                for number in 0..EVENTS {
                    append(&outbox, &pool, Event::new(TOPIC, key).bytes(format!("{key}{number:03}"))).await;
                }
            })
        })
        .into();
    let mut skipped: HashSet<EventId> = HashSet::new();
    // Few keys in memory: most are looked up.
    let start = || world.relay_with(&sink, OnRefusal::BlockKey, 7, 1);
    let mut relay = start();
    for _ in 0..ACTIONS {
        act(&world, &sink, &mut random, &mut skipped).await;
        match random.u8(..20) {
            0 => {
                relay.crash().await;
                relay = start();
            }
            1 => {
                relay.end().await;
                relay = start();
            }
            _ => tokio::time::sleep(Duration::from_millis(random.u64(..20))).await,
        }
    }
    for writer in writers {
        writer.await.expect("it writes");
    }
    sink.mend_all();
    let all = KEYS.len() * EVENTS;
    let comes = async {
        loop {
            let _ = world.parked.retry(&Retry::Topic(TOPIC), "ann", "mended").await.unwrap();
            let arrived: HashSet<EventId> = sink.events().iter().map(|event| event.event_id).collect();
            if arrived.union(&skipped).count() == all && world.count().await == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let came = tokio::time::timeout(PATIENCE, comes).await;
    assert!(
        came.is_ok(),
        "seed {seed}: {} arrived, {} skipped, {:?}",
        sink.events().len(),
        skipped.len(),
        world.list().await
    );
    for key in KEYS {
        let arrived = sink.of_key(key);
        assert!(arrived.is_sorted(), "seed {seed}: {arrived:?}");
    }
    assert_eq!(sink.of_key(INNOCENT).len(), EVENTS);
    relay.end().await;
    for left in ["leastlock_outbox_parked", "leastlock_outbox_parked_queue"] {
        let count = match left {
            "leastlock_outbox_parked" => "SELECT count(*) FROM leastlock_outbox_parked",
            _ => "SELECT count(*) FROM leastlock_outbox_parked_queue",
        };
        assert_eq!(world.database.int(count).await, 0, "seed {seed}: {left}");
    }
}

/// One thing that an operator does. Not a release: it gives an order up.
async fn act<DB: TestEngine + OutboxSql>(
    world: &World<DB>,
    sink: &Picky,
    random: &mut fastrand::Rng,
    skipped: &mut HashSet<EventId>,
) {
    let list = world.list().await;
    let Some(event) = (!list.is_empty()).then(|| &list[random.usize(..list.len())]) else { return };
    let key = event.key.clone().expect("a key");
    match random.u8(..8) {
        0..3 => {
            let _ = world.parked.retry(&Retry::Key { topic: TOPIC, key: &key }, "ann", "hopes").await.unwrap();
        }
        3..5 => {
            let _ = world.parked.retry(&Retry::Event(event.event_id), "ann", "hopes").await.unwrap();
        }
        5 => {
            if let Asked::Done { .. } = world.parked.skip(event.event_id, "ann", "wrong").await.unwrap() {
                skipped.insert(event.event_id);
            }
        }
        _ => {
            let whole = world.parked.read(event.event_id).await.unwrap();
            if let Some(whole) = whole {
                sink.mend(&crate::world::value(&whole));
            }
        }
    }
}
