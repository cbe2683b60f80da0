//! What a read brings at most.

use std::collections::BTreeMap;

use leastlock_testkit::{TestDatabase, TestEngine};

use super::*;
use crate::event::Event;
use crate::outbox::Outbox;
use crate::parked::Cause;
use crate::relay::pipeline::Parked;

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod failover;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod stopped;

/// Claims all that there is.
async fn claimed<DB: TestEngine + OutboxSql>(log: &SqlLog<DB>) -> Vec<ReadFrom> {
    let shards: Vec<i64> = if DB::SHARDED { (0..16).collect() } else { vec![0] };
    let cursors = log.claim("me", &shards, 16, 600_000).await.unwrap();
    cursors.into_iter().map(|cursor| ReadFrom { cursor, unnoted: Vec::new() }).collect()
}

/// Reads to the end; answers the ids by shard, or how many bytes a read brought that is beyond the limit.
async fn read_all<DB: TestEngine + OutboxSql>(
    log: &SqlLog<DB>,
    from: &[ReadFrom],
    bytes: usize,
    asked: usize,
) -> Result<BTreeMap<i64, Vec<i64>>, usize> {
    let (mut from, mut ids) = (from.to_vec(), BTreeMap::<i64, Vec<i64>>::new());
    loop {
        let pages = log.read(&from, ReadLimit { events: 200, bytes: asked }).await.unwrap();
        let events: Vec<_> = pages.iter().flat_map(|page| &page.events).collect();
        let brought = events.iter().map(|event| event.bytes()).sum();
        if brought > bytes && events.len() > 1 {
            return Err(brought);
        }
        if events.is_empty() {
            return Ok(ids);
        }
        assert!(events.iter().all(|event| event.value.as_ref().is_some_and(|value| !value.is_empty())));
        assert!(events.iter().all(|event| event.headers.last("h") == Some(&b"1"[..])));
        for (place, page) in from.iter_mut().zip(&pages) {
            place.cursor = page.after(page.events.len());
            let of_page = page.events.iter().map(|event| event.id);
            if !DB::POSITIONS {
                place.unnoted.extend(of_page.clone());
            }
            ids.entry(place.cursor.shard).or_default().extend(of_page);
        }
    }
}

async fn read_brings_no_more_bytes_than_there_is_room_for<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    const LIMIT: usize = 300_000;
    let database = database.with(&crate::MIGRATIONS).await;
    let outbox = Outbox::open(&database.pool).await.unwrap();
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    // Small ones, large ones between them, and one that is beyond the limit by itself.
    for number in 0..160_usize {
        let bytes = if number == 40 { 400_000 } else { [30, 2_000, 50_000][number % 3] };
        let event = Event::new("t", format!("k{}", number % 40)).bytes(vec![b'x'; bytes]).header("h", "1");
        outbox.append(&mut tx, event).await.unwrap();
    }
    tx.commit().await.unwrap();
    let log = SqlLog::of(&database.pool);
    let from = claimed(&log).await;
    for asked in [LIMIT, 1] {
        let read = read_all(&log, &from, LIMIT, asked).await.unwrap();
        assert_eq!(read.values().map(Vec::len).sum::<usize>(), 160, "each once");
        assert!(read.values().all(|ids| ids.is_sorted()), "{read:?}");
    }
    // The double counts events only.
    let beyond = read_all(&log, &from, LIMIT, usize::MAX).await.unwrap_err();
    assert!(beyond > 1_000_000, "{beyond}");
}

async fn head_of_a_queue_brings_no_more_bytes_than_asked_for<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    const BYTES: usize = 50_000;
    let database = database.with(&crate::MIGRATIONS).await;
    let outbox = Outbox::open(&database.pool).await.unwrap();
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    for _ in 0..5 {
        outbox.append(&mut tx, Event::new("t", "k").bytes(vec![b'x'; BYTES]).header("h", "ü")).await.unwrap();
    }
    tx.commit().await.unwrap();
    let log = SqlLog::of(&database.pool);
    let pages = log.read(&claimed(&log).await, ReadLimit { events: 10, bytes: 1 << 20 }).await.unwrap();
    let page = pages.into_iter().find(|page| !page.events.is_empty()).unwrap();
    let cause = Cause::Refused { reason: "it is too large".into() };
    let park = |event: &LoggedEvent| Parked { event: event.clone(), cause: cause.clone(), overtaken_by: Vec::new() };
    let parked: Vec<_> = page.events.iter().map(park).collect();
    let published = if DB::POSITIONS { Vec::new() } else { page.events.iter().map(|event| event.id).collect() };
    let (shard, queue) = (page.shard(), parked[0].queue());
    assert_eq!(log.note(&[Note { cursor: page.after(5), published, parked }]).await.unwrap(), [shard]);
    let head = async |events, bytes| log.head(shard, queue, ReadLimit { events, bytes }).await.unwrap();
    for (events, bytes, brought) in [(64, 1, 1), (64, 2 * BYTES + 1_000, 2), (3, 1 << 30, 3), (64, 1 << 30, 5)] {
        let head = head(events, bytes).await;
        assert_eq!(head.len(), brought, "{events} {bytes}");
        let same = |(one, other): (&LoggedEvent, &LoggedEvent)| {
            (one.id, &one.value, &one.headers) == (other.id, &other.value, &other.headers)
        };
        assert!(head.iter().zip(&page.events).all(same), "the first ones, whole");
    }
}

mod suite {
    pub(super) use super::{
        head_of_a_queue_brings_no_more_bytes_than_asked_for, read_brings_no_more_bytes_than_there_is_room_for,
    };
}

leastlock_testkit::mount!(suite:
    head_of_a_queue_brings_no_more_bytes_than_asked_for,
    read_brings_no_more_bytes_than_there_is_room_for,
);
