//! A relay that is stopped while a transaction of its holds shards' rows. It is a future that is polled no more: its connection stays open,
//! and says nothing.

use std::pin::{Pin, pin};
use std::time::Duration;

use leastlock_core::Engine;
use leastlock_testkit::database::sql;
use leastlock_testkit::until;

use super::*;
use crate::parked::Cause;
use crate::relay::pipeline::Parked;

const LEASE_MS: i64 = 1_000;
/// How long the rows may be held: the lease and a second, and what a busy machine takes. Less than a transaction may be silent otherwise.
const LIMIT: Duration = Duration::from_secs(6);
const PATIENCE: Duration = Duration::from_secs(30);

const ASLEEP: (&str, &str) = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'",
    "SELECT count(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND STATE = 'User sleep'",
);
const SLEEPER: &str = "CREATE FUNCTION sleeper() RETURNS trigger LANGUAGE plpgsql AS \
    $$ BEGIN PERFORM pg_sleep(2); RETURN NULL; END $$";
const AT_PARKING: (&str, &str) = (
    "CREATE TRIGGER asleep BEFORE INSERT ON leastlock_outbox_parked EXECUTE FUNCTION sleeper()",
    "CREATE TRIGGER asleep BEFORE INSERT ON leastlock_outbox_parked FOR EACH ROW DO SLEEP(2)",
);
const AT_SETTLING: (&str, &str) = (
    "CREATE TRIGGER asleep BEFORE DELETE ON leastlock_outbox_parked EXECUTE FUNCTION sleeper()",
    "CREATE TRIGGER asleep BEFORE DELETE ON leastlock_outbox_parked FOR EACH ROW DO SLEEP(2)",
);
#[cfg(feature = "postgres")]
const AT_SEEING: &str =
    "CREATE TRIGGER asleep BEFORE UPDATE OF seen_id ON leastlock_outbox_shard EXECUTE FUNCTION sleeper()";
const FREE: (&str, &str) = (
    "SELECT count(*) FROM (SELECT shard FROM leastlock_outbox_shard FOR UPDATE SKIP LOCKED) AS free",
    "SELECT count(*) FROM (SELECT shard FROM leastlock_outbox_shard FOR UPDATE SKIP LOCKED) AS free",
);

/// Events of one key, the log that has claimed their shard, and what was read.
struct Scene<DB: TestEngine + OutboxSql> {
    database: TestDatabase<DB>,
    log: SqlLog<DB>,
    page: Page,
}

impl<DB: TestEngine + OutboxSql> Scene<DB> {
    /// `trigger` says where the server sleeps.
    async fn set(trigger: &'static str) -> Self {
        let database = TestDatabase::<DB>::create().await.with(&crate::MIGRATIONS).await;
        let outbox = Outbox::open(&database.pool).await.unwrap();
        let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
        for value in ["1", "2"] {
            outbox.append(&mut tx, Event::new("t", "k").bytes(value)).await.unwrap();
        }
        tx.commit().await.unwrap();
        let log = SqlLog::of(&database.pool);
        let shards: Vec<i64> = (0..16).collect();
        let cursors = log.claim("me", &shards, 16, LEASE_MS).await.unwrap();
        let from: Vec<_> = cursors.into_iter().map(|cursor| ReadFrom { cursor, unnoted: Vec::new() }).collect();
        let pages = log.read(&from, ReadLimit { events: 10, bytes: 1 << 20 }).await.unwrap();
        let page = pages.into_iter().find(|page| !page.events.is_empty()).unwrap();
        if DB::ENGINE == Engine::Postgres {
            database.execute(SLEEPER).await;
        }
        database.execute(trigger).await;
        Self { database, log, page }
    }

    /// The first event is to be parked.
    fn note(&self) -> Note {
        let cause = Cause::Refused { reason: "it is too large".into() };
        let parked = vec![Parked { event: self.page.events[0].clone(), cause, overtaken_by: Vec::new() }];
        let published = if DB::POSITIONS { Vec::new() } else { vec![self.page.events[0].id] };
        Note { cursor: self.page.after(1), published, parked }
    }

    /// Goes on until the server is asleep in the statement, and no further.
    async fn stop_in<T>(&self, future: Pin<&mut impl Future<Output = T>>) {
        let asleep = async || self.database.int(sql::<DB>(ASLEEP.0, ASLEEP.1)).await > 0;
        tokio::select! {
            biased;
            () = until("the server is in the statement", PATIENCE, asleep) => {}
            _ = future => panic!("it was not stopped on its way"),
        }
    }

    /// Whether all shards can be taken over in time, once the statement is over.
    async fn is_free_in_time(&self) -> bool {
        until("the statement is over", PATIENCE, async || self.database.int(sql::<DB>(ASLEEP.0, ASLEEP.1)).await == 0)
            .await;
        let free = async || self.database.int(sql::<DB>(FREE.0, FREE.1)).await == 16;
        let until = std::time::Instant::now() + LIMIT;
        while std::time::Instant::now() < until {
            if free().await {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        false
    }
}

async fn relay_stopped_while_it_parks_keeps_no_shard_beyond_its_lease<DB: TestEngine + OutboxSql>(_: TestDatabase<DB>) {
    let free = async |idle_ms: Option<i64>| {
        let scene = Scene::<DB>::set(sql::<DB>(AT_PARKING.0, AT_PARKING.1)).await;
        if let Some(idle_ms) = idle_ms {
            scene.log.idle_ms.store(idle_ms, Ordering::SeqCst);
        }
        let notes = [scene.note()];
        let mut noting = pin!(scene.log.note(&notes));
        scene.stop_in(noting.as_mut()).await;
        scene.is_free_in_time().await
    };
    assert!(free(None).await);
    // The double: as long as any transaction may be silent. Where a note is one message, none is.
    assert_eq!(free(Some(LONGEST_IDLE_MS)).await, DB::ENGINE == Engine::MySql, "the double must be seen to hold them");
}

async fn relay_stopped_while_it_settles_keeps_no_shard_beyond_its_lease<DB: TestEngine + OutboxSql>(
    _: TestDatabase<DB>,
) {
    let free = async |idle_ms: Option<i64>| {
        let scene = Scene::<DB>::set(sql::<DB>(AT_SETTLING.0, AT_SETTLING.1)).await;
        let (note, event) = (scene.note(), &scene.page.events[0]);
        assert_eq!(scene.log.note(std::slice::from_ref(&note)).await.unwrap(), [event.shard]);
        if let Some(idle_ms) = idle_ms {
            scene.log.idle_ms.store(idle_ms, Ordering::SeqCst);
        }
        let tried = [Tried { queue: note.parked[0].queue(), sent: vec![event.id], refused: None }];
        let mut settling = pin!(scene.log.settle(event.shard, note.cursor.epoch, &tried));
        scene.stop_in(settling.as_mut()).await;
        scene.is_free_in_time().await
    };
    assert!(free(None).await);
    assert!(!free(Some(LONGEST_IDLE_MS)).await, "the double must be seen to hold it");
}

#[cfg(feature = "postgres")]
async fn relay_stopped_while_it_notes_ids_keeps_no_shard_beyond_its_lease(_: TestDatabase<sqlx::Postgres>) {
    let scene = Scene::<sqlx::Postgres>::set(AT_SEEING).await;
    let held = [(scene.page.shard(), scene.page.epoch())];
    let mut seeing = pin!(scene.log.see(&held));
    scene.stop_in(seeing.as_mut()).await;
    assert!(scene.is_free_in_time().await);

    // The double: a transaction of which the server does not know how long it may be silent.
    let double = async {
        let mut connection = scene.database.pool.acquire().await.unwrap();
        let mut tx = connection.begin().await.unwrap();
        let see = Statement::new(include_str!("../../../../sql/postgres/see.sql"));
        see.bind(&[held[0].0][..]).bind(&[held[0].1][..]).execute::<sqlx::Postgres>(&mut tx).await.unwrap();
        std::future::pending::<()>().await;
    };
    let mut double = pin!(double);
    scene.stop_in(double.as_mut()).await;
    assert!(!scene.is_free_in_time().await, "the double must be seen to hold it");
}

mod suite {
    pub(super) use super::*;
}

leastlock_testkit::mount!(suite on postgres and mysql:
    relay_stopped_while_it_parks_keeps_no_shard_beyond_its_lease,
    relay_stopped_while_it_settles_keeps_no_shard_beyond_its_lease,
);

#[cfg(feature = "postgres")]
mod on_postgres {
    use super::suite;

    leastlock_testkit::mount!(suite on postgres: relay_stopped_while_it_notes_ids_keeps_no_shard_beyond_its_lease);
}
