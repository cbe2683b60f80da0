//! How far publishing is behind, in three ages.

use std::time::Duration;

use leastlock_outbox::{Lag, OutboxSql};
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::support::{BAD, Recorder, Running, commit, tables, until};

pub(crate) async fn lag_tells_what_is_unpublished_and_what_is_parked<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (database, outbox) = tables(database).await;
    let lag = async || Lag::of(&database.pool).await.unwrap();
    let nothing = lag().await;
    assert_eq!((nothing.open_writer, nothing.unpublished, nothing.parked), (None, None, None));
    assert_eq!((nothing.backlog, nothing.parked_events), (0, 0));

    let sink = Recorder::shut();
    let relay = Running::with(&database.pool, &sink, |relay| relay.page(2));
    for number in 0..20 {
        commit(&outbox, &database.pool, &format!("k{number}"), "v").await;
    }
    until("its age grows", async || lag().await.unpublished > Some(Duration::from_millis(200))).await;
    let behind = lag().await;
    assert_eq!((behind.backlog, behind.backlog_is_exact), (20, true), "sent, and not noted as published");
    assert!(behind.appended_per_second(&nothing) > 0.0);
    sink.open();
    until("nothing is unpublished", async || lag().await.backlog == 0).await;
    assert_eq!(lag().await.unpublished, None);
    commit(&outbox, &database.pool, "k", BAD).await;
    until("its age grows", async || lag().await.parked > Some(Duration::from_millis(50))).await;
    assert_eq!(lag().await.parked_events, 1);
    relay.end().await;
}

#[cfg(feature = "postgres")]
pub(crate) use postgres::{large_backlog_is_estimated, open_writer_is_seen_by_its_age};

#[cfg(feature = "postgres")]
mod postgres {
    use leastlock_outbox::Event;
    use sqlx::Postgres;

    use super::*;

    pub(crate) async fn open_writer_is_seen_by_its_age(database: TestDatabase<Postgres>) {
        let (database, outbox) = tables(database).await;
        let lag = async || Lag::of(&database.pool).await.unwrap();
        let mut open = database.pool.begin().await.unwrap();
        sqlx::query("SELECT 1").execute(&mut *open).await.unwrap();
        assert_eq!(lag().await.open_writer, None, "it has not appended");
        outbox.append(&mut open, Event::new("moves", "k")).await.unwrap();
        until("its age grows", async || lag().await.open_writer > Some(Duration::from_millis(100))).await;
        assert_eq!(lag().await.unpublished, None, "its event is not committed");
        open.commit().await.unwrap();
        let lag = lag().await;
        assert_eq!((lag.open_writer, lag.backlog), (None, 1));
        assert!(lag.unpublished >= Some(Duration::from_millis(100)), "{lag:?}");
    }

    pub(crate) async fn large_backlog_is_estimated(database: TestDatabase<Postgres>) {
        let (database, _outbox) = tables(database).await;
        let many = "INSERT INTO leastlock_outbox (shard, event_id, topic) \
                    SELECT number % 16, gen_random_uuid(), 't' FROM generate_series(1, 100000) AS number";
        database.execute(many).await;
        let lag = Lag::of(&database.pool).await.unwrap();
        assert!(!lag.backlog_is_exact);
        assert!((90_000..=110_000).contains(&lag.backlog), "{lag:?}");

        // Retired shards take none.
        let (database, _outbox) = tables(TestDatabase::<Postgres>::create().await).await;
        leastlock_outbox::raise_shards(&database.pool, 32).await.unwrap();
        let many = "INSERT INTO leastlock_outbox (shard, event_id, topic) \
                    SELECT 16 + number % 32, gen_random_uuid(), 't' FROM generate_series(1, 100000) AS number";
        database.execute(many).await;
        let lag = Lag::of(&database.pool).await.unwrap();
        assert!((90_000..=110_000).contains(&lag.backlog), "{lag:?}");
    }
}

#[cfg(feature = "mysql")]
pub(crate) use mysql::large_backlog_of_rows_that_go_is_estimated;

#[cfg(feature = "mysql")]
mod mysql {
    use sqlx::MySql;

    use super::*;

    pub(crate) async fn large_backlog_of_rows_that_go_is_estimated(database: TestDatabase<MySql>) {
        let (database, outbox) = tables(database).await;
        let many = "INSERT INTO leastlock_outbox (shard, event_id, topic) \
                    WITH RECURSIVE digit (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM digit WHERE n < 199) \
                    SELECT low.n % 16, UUID(), 't' FROM digit AS high CROSS JOIN digit AS low";
        database.execute(many).await;
        let full = Lag::of(&database.pool).await.unwrap();
        assert!(!full.backlog_is_exact);
        assert!((36_000..=80_000).contains(&full.backlog), "{full:?}");
        // What is published is gone, and how much was appended is known all the same.
        database.execute("DELETE FROM leastlock_outbox").await;
        commit(&outbox, &database.pool, "k", "v").await;
        database.execute("DELETE FROM leastlock_outbox").await;
        let empty = Lag::of(&database.pool).await.unwrap();
        assert_eq!((empty.backlog, empty.backlog_is_exact, empty.unpublished), (0, true, None));
        assert!(empty.appended_per_second(&full) > 0.0);
    }
}
