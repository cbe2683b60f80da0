//! What a note does after a failover: the shards' rows were copied, epochs included, and the sessions were not.

use std::time::Duration;

use leastlock_testkit::database::sql;

use super::*;

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

    // Behind a pooler a note may come to the very session that reads.
    let there = database().await;
    let (log, note) = published(&there).await;
    let number = log.reader_number.load(Ordering::SeqCst);
    let mut reader = log.reader.lock().await;
    let own = DB::note(reader.as_mut().expect("it has read"), std::slice::from_ref(&note), number, 10_000).await;
    assert_eq!(own.unwrap(), [note.cursor.shard]);
    drop(reader);

    let promoted = database().await;
    let (log, note) = published(&promoted).await;
    lose_reader(&log).await;
    assert_eq!(log.note(std::slice::from_ref(&note)).await.unwrap(), [0; 0]);
    assert_eq!(promoted.int(left).await, 1, "the event is still to be published");

    // The double goes by the epoch alone, which was copied: it asks for a session that is always there.
    let (_other, there) = Lent::<DB>::reader(&promoted.pool).await.unwrap();
    let mut connection = promoted.pool.acquire().await.unwrap();
    assert_eq!(
        DB::note(&mut connection, std::slice::from_ref(&note), there, 10_000).await.unwrap(),
        [note.cursor.shard]
    );
    assert_eq!(promoted.int(left).await, 0, "the double must be seen to pass over the event");
}

mod suite {
    pub(super) use super::note_does_not_reach_a_server_that_was_not_read;
}

leastlock_testkit::mount!(suite on postgres and mysql: note_does_not_reach_a_server_that_was_not_read);
