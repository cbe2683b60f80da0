//! What a read brings at most; and what a note does after a failover: the shards' rows were copied, epochs included, and the sessions
//! were not.

use std::collections::BTreeMap;
use std::time::Duration;

use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};

use super::*;
use crate::event::Event;
use crate::outbox::Outbox;

/// What is not noted as published.
const LEFT: (&str, &str) = (
    "SELECT count(*) FROM leastlock_outbox AS o JOIN leastlock_outbox_shard AS s USING (shard) \
     WHERE NOT pg_visible_in_snapshot(o.xid, s.done)",
    "SELECT count(*) FROM leastlock_outbox",
);
const HELD: (&str, &str) = (
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND (classid::bigint << 32) | objid::bigint = $1",
    "SELECT IS_USED_LOCK(CONCAT('leastlock_outbox_', ?)) IS NOT NULL",
);

/// Claims all that there is.
async fn claimed<DB: TestEngine + OutboxSql>(log: &SqlLog<DB>) -> Vec<ReadFrom> {
    let shards: Vec<i64> = if DB::SHARDED { (0..16).collect() } else { vec![0] };
    let cursors = log.claim("me", &shards, 16, 600_000).await.unwrap();
    cursors.into_iter().map(|cursor| ReadFrom { cursor, unnoted: Vec::new() }).collect()
}

/// A log that has read an event, and the note that it was published.
async fn published<DB: TestEngine + OutboxSql>(database: &TestDatabase<DB>) -> (SqlLog<DB>, Note) {
    let outbox = Outbox::open(&database.pool).await.unwrap();
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    outbox.append(&mut tx, Event::new("t", "k").bytes("v")).await.unwrap();
    tx.commit().await.unwrap();
    let log = SqlLog::of(&database.pool);
    let from = claimed(&log).await;
    let pages = log.read(&from, ReadLimit { events: 10, bytes: 1 << 20 }).await.unwrap();
    let page = pages.iter().find(|page| !page.events.is_empty()).unwrap();
    let ids = if DB::POSITIONS { Vec::new() } else { vec![page.events[0].id] };
    (log, Note { cursor: page.after(1), published: ids, parked: Vec::new() })
}

/// The server that was promoted has no such session.
async fn lose_reader<DB: TestEngine + OutboxSql>(log: &SqlLog<DB>) {
    let number = log.reader_number.load(Ordering::SeqCst);
    drop(log.reader.lock().await.take().expect("it has read"));
    leastlock_testkit::until("the session is gone", Duration::from_secs(30), async || {
        let mut connection = log.pool.acquire().await.unwrap();
        let held = Statement::new(sql::<DB>(HELD.0, HELD.1)).bind(number);
        held.fetch_one::<DB>(&mut connection).await.unwrap().int(0).unwrap() == 0
    })
    .await;
}

async fn note_does_not_reach_a_server_that_was_not_read<DB: TestEngine + OutboxSql>(_: TestDatabase<DB>) {
    let database = async || TestDatabase::<DB>::create().await.with(&crate::MIGRATIONS).await;
    let left = sql::<DB>(LEFT.0, LEFT.1);
    // On the server that was read it is taken, whatever else the reader does.
    let there = database().await;
    let (log, note) = published(&there).await;
    assert_eq!(log.note(std::slice::from_ref(&note)).await.unwrap(), [note.cursor.shard]);
    assert_eq!(there.int(left).await, 0);

    let promoted = database().await;
    let (log, note) = published(&promoted).await;
    lose_reader(&log).await;
    assert_eq!(log.note(std::slice::from_ref(&note)).await.unwrap(), [0; 0]);
    assert_eq!(promoted.int(left).await, 1, "the event is still to be published");

    // The double goes by the epoch alone, which was copied: it asks for a session that is always there.
    let (_other, there) = Lent::<DB>::reader(&promoted.pool).await.unwrap();
    let mut connection = promoted.pool.acquire().await.unwrap();
    assert_eq!(DB::note(&mut connection, std::slice::from_ref(&note), there).await.unwrap(), [note.cursor.shard]);
    assert_eq!(promoted.int(left).await, 0, "the double must be seen to pass over the event");
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

mod suite {
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(super) use super::note_does_not_reach_a_server_that_was_not_read;
    pub(super) use super::read_brings_no_more_bytes_than_there_is_room_for;
}

leastlock_testkit::mount!(suite: read_brings_no_more_bytes_than_there_is_room_for);

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod servers {
    use super::suite;

    leastlock_testkit::mount!(suite on postgres and mysql: note_does_not_reach_a_server_that_was_not_read);
}
