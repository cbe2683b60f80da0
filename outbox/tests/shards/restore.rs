//! B11: a log whose cursor is of another database.

use leastlock_core::Engine;
use leastlock_outbox::{Error, RebaseSql, Rebased, rebase};
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::support::{Recorder, Running, commit, tables, until};

/// The log is of an older state than the cursor: what is appended from then on lies behind the cursor.
pub(crate) async fn b11_log_restored_without_its_cursor_is_refused_and_rebased<DB: TestEngine + RebaseSql>(
    database: TestDatabase<DB>,
) {
    let (database, outbox) = tables(database).await;
    let sink = Recorder::new();
    let relay = Running::start(&database.pool, &sink);
    for value in ["1", "2", "3"] {
        commit(&outbox, &database.pool, "k", value).await;
    }
    sink.comes_to(3).await;
    relay.end().await;
    assert_eq!(rebase(&database.pool).await.unwrap(), Rebased::NotNeeded);
    if DB::ENGINE == Engine::Sqlite {
        database.execute("DELETE FROM leastlock_outbox WHERE id > 1").await;
        database.execute("UPDATE sqlite_sequence SET seq = 1 WHERE name = 'leastlock_outbox'").await;
    } else {
        database.execute("DELETE FROM leastlock_outbox WHERE id > (SELECT min(id) FROM leastlock_outbox)").await;
        let ahead = "UPDATE leastlock_outbox_shard SET done = '4000000000000:4000000000000:'";
        database.execute(ahead).await;
    }
    commit(&outbox, &database.pool, "k", "new").await;
    // The double, a reader that believes its cursor: it never finds the new event.
    let found = match DB::ENGINE {
        Engine::Sqlite => {
            "SELECT count(*) FROM leastlock_outbox WHERE id > (SELECT last_id FROM leastlock_outbox_shard)"
        }
        _ => {
            "SELECT count(*) FROM leastlock_outbox AS o JOIN leastlock_outbox_shard AS s USING (shard) \
             WHERE NOT pg_visible_in_snapshot(o.xid, s.done)"
        }
    };
    assert_eq!(database.int(found).await, 0, "the double must be seen to lose it");

    let stopped = Running::start(&database.pool, &sink).stopped().await;
    assert!(matches!(stopped, Error::CursorAhead { .. }) && stopped.to_string().contains("rebase"), "{stopped}");
    let rebased = rebase(&database.pool).await.unwrap();
    assert!(matches!(rebased, Rebased::Done { .. }), "{rebased:?}");
    let relay = Running::start(&database.pool, &sink);
    until("the new event was published", async || sink.values().contains(&"new".to_owned())).await;
    commit(&outbox, &database.pool, "k", "newer").await;
    until("the newer event was published", async || sink.values().contains(&"newer".to_owned())).await;
    relay.end().await;
    let values = sink.values();
    let first = |value: &str| values.iter().position(|other| other == value).unwrap();
    assert!(first("new") < first("newer"));
}

#[cfg(feature = "postgres")]
pub(crate) use postgres::*;

#[cfg(feature = "postgres")]
mod postgres {
    use std::time::Duration;

    use leastlock_outbox::{Event, MIGRATIONS, Outbox, Replay};
    use leastlock_testkit::cluster::PostgresCluster;
    use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool, Postgres, Row};

    use super::*;

    const PUBLISHED: usize = 20;

    /// A relay has read past transaction ids of which the server, after its crash, knows nothing and which it gives again. A standby
    /// that was promoted looks the same.
    pub(crate) async fn b11_server_that_crashes_under_a_relay_loses_no_event(_database: TestDatabase<Postgres>) {
        for crowded in [true, false] {
            let mut cluster = PostgresCluster::start_with(&["wal_writer_delay=10s", "synchronous_commit=off"]).await;
            let pool = PgPool::connect(&cluster.url).await.unwrap();
            MIGRATIONS.run(&pool).await.unwrap();
            let outbox = Outbox::open(&pool).await.unwrap();
            let sink = Recorder::new();
            // It holds its shards all the time.
            let relay = Running::with(&pool, &sink, |relay| relay.lease(Duration::from_mins(2)));
            commit(&outbox, &pool, "k", "before").await;
            sink.comes_to(1).await;
            let unnoted = "SELECT count(*) FROM leastlock_outbox AS o JOIN leastlock_outbox_shard AS s USING (shard) \
                           WHERE NOT pg_visible_in_snapshot(o.xid, s.done)";
            until("it is noted", async || int(&pool, unnoted).await == 0).await;
            sqlx::query("CHECKPOINT").execute(&pool).await.unwrap();

            let lost = use_ids(&pool, 300).await;
            let read = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_current_snapshot() AS snapshot%' \
                        AND pid <> pg_backend_pid() AND state = 'idle' AND query_start > to_timestamp($1::double precision)";
            let used = sqlx::query_scalar::<_, f64>("SELECT extract(epoch FROM clock_timestamp())::double precision")
                .fetch_one(&pool)
                .await
                .unwrap();
            until("the relay has read past them", async || {
                sqlx::query_scalar::<_, i64>(read).bind(used).fetch_one(&pool).await.unwrap() > 0
            })
            .await;
            cluster.crash().await;

            let other = PgPool::connect(&cluster.url).await.unwrap();
            let mut tx = other.begin().await.unwrap();
            outbox.append(&mut tx, Event::new("moves", "k").bytes("after")).await.unwrap();
            let id: i64 =
                sqlx::query_scalar("SELECT pg_current_xact_id()::text::bigint").fetch_one(&mut *tx).await.unwrap();
            assert!(id <= lost, "the crash must be seen to set the ids back: {id}, {lost}");
            tx.commit().await.unwrap();
            if crowded {
                // Others use up the rest before the relay is back.
                use_ids(&other, 600).await;
            }
            sink.comes_to(2).await;
            assert_eq!(sink.values(), ["before", "after"]);
            relay.end().await;
            pool.close().await;
            other.close().await;
        }
    }

    /// Uses transaction ids up, without any that is flushed; answers the last.
    async fn use_ids(pool: &PgPool, count: usize) -> i64 {
        let mut connection = pool.acquire().await.unwrap();
        let mut last = 0;
        for _ in 0..count {
            last = int(&mut *connection, "SELECT pg_current_xact_id()::text::bigint").await;
        }
        last
    }

    async fn int<'a>(executor: impl sqlx::PgExecutor<'a>, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(executor).await.unwrap()
    }

    pub(crate) async fn b11_dump_in_a_new_cluster_is_refused_and_rebased(database: TestDatabase<Postgres>) {
        let (database, outbox) = tables(database).await;
        let sink = Recorder::new();
        let relay = Running::start(&database.pool, &sink);
        for number in 0..PUBLISHED {
            commit(&outbox, &database.pool, &format!("k{}", number % 7), &format!("published {number}")).await;
        }
        sink.comes_to(PUBLISHED).await;
        let unnoted = "SELECT count(*) FROM leastlock_outbox AS o JOIN leastlock_outbox_shard AS s USING (shard) \
                       WHERE o.id > s.seen_id OR NOT pg_visible_in_snapshot(o.xid, s.done)";
        until("a renewal has come after the last note", async || database.int(unnoted).await == 0).await;
        relay.end().await;
        for value in ["left 1", "left 2", "left 3"] {
            commit(&outbox, &database.pool, "k1", value).await;
        }

        let cluster = PostgresCluster::start().await;
        cluster.restore(&database.url).await;
        let pool = PgPool::connect(&cluster.url).await.unwrap();
        // The application is back before anybody thinks of the outbox.
        let outbox = Outbox::open(&pool).await.unwrap();
        commit(&outbox, &pool, "k1", "new 4").await;
        naive_rebase_loses_what_was_left(&cluster).await;

        let sink = Recorder::new();
        let stopped = Running::start(&pool, &sink).stopped().await;
        assert!(matches!(stopped, Error::Moved { .. }) && stopped.to_string().contains("rebase"), "{stopped}");
        assert_eq!(rebase(&pool).await.unwrap(), Rebased::Done { to_publish: Some(4) });
        assert_eq!(rebase(&pool).await.unwrap(), Rebased::NotNeeded);
        let relay = Running::start(&pool, &sink);
        sink.comes_to(4).await;
        commit(&outbox, &pool, "k1", "new 5").await;
        sink.comes_to(5).await;
        relay.end().await;
        assert_eq!(sink.values(), ["left 1", "left 2", "left 3", "new 4", "new 5"]);
        pool.close().await;
    }

    /// A transaction that began after the survey's own and is over is none that the cluster has not begun. The double looks at the
    /// survey's own transaction only.
    pub(crate) async fn event_of_a_transaction_that_overtook_the_survey_is_no_restore(
        database: TestDatabase<Postgres>,
    ) {
        let (database, outbox) = tables(database).await;
        let mut tx = database.pool.begin().await.unwrap();
        sqlx::query("SELECT pg_current_xact_id()").execute(&mut *tx).await.unwrap();
        commit(&outbox, &database.pool, "k", "1").await;
        let double = "SELECT count(*) FROM leastlock_outbox WHERE xid > pg_current_xact_id()";
        let ahead: i64 = sqlx::query_scalar(double).fetch_one(&mut *tx).await.unwrap();
        assert_eq!(ahead, 1, "the double must be seen to stop relays");
        let survey = sqlx::query(include_str!("../../sql/postgres/survey.sql")).bind("somebody").bind(1000_i64);
        let rows = survey.fetch_all(&mut *tx).await.unwrap();
        assert!(rows.len() == 16 && rows.iter().all(|row| row.get::<Option<String>, _>(8).is_none()), "{rows:?}");
        let needed = sqlx::query_scalar(include_str!("../../sql/postgres/rebase_needed.sql"));
        let needed: Vec<Option<i64>> = needed.fetch_all(&mut *tx).await.unwrap();
        assert!(needed.len() == 16 && needed.iter().all(|needed| *needed != Some(1)), "{needed:?}");
        tx.rollback().await.unwrap();
    }

    /// Logical replication brings rows, and leaves the sequence where it was.
    pub(crate) async fn b11_log_moved_without_its_sequence_is_not_rebased(database: TestDatabase<Postgres>) {
        let (database, outbox) = tables(database).await;
        database.execute("SELECT setval(pg_get_serial_sequence('leastlock_outbox', 'id'), 1000)").await;
        let sink = Recorder::new();
        let relay = Running::start(&database.pool, &sink);
        commit(&outbox, &database.pool, "k", "old").await;
        sink.comes_to(1).await;
        let seen = "SELECT max(seen_id) FROM leastlock_outbox_shard";
        until("a renewal has come", async || database.int(seen).await == 1001).await;
        relay.end().await;
        database.execute("UPDATE leastlock_outbox_shard SET system_id = 1, done = '9000000000:9000000000:'").await;
        database.execute("DELETE FROM leastlock_outbox").await;
        database.execute("SELECT setval(pg_get_serial_sequence('leastlock_outbox', 'id'), 1, false)").await;
        commit(&outbox, &database.pool, "k", "new").await;
        let refused = rebase(&database.pool).await;
        assert!(matches!(refused, Err(Error::SequenceBehind { last: 1, seen: 1001, .. })), "{refused:?}");
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("setval('public.leastlock_outbox_id_seq', 1001)"), "{said}");

        database.execute("SELECT setval('public.leastlock_outbox_id_seq', 1001)").await;
        database
            .execute("UPDATE leastlock_outbox SET id = nextval('public.leastlock_outbox_id_seq') WHERE id <= 1")
            .await;
        assert_eq!(rebase(&database.pool).await.unwrap(), Rebased::Done { to_publish: Some(1) });
        let relay = Running::start(&database.pool, &sink);
        sink.comes_to(2).await;
        relay.end().await;
        assert_eq!(sink.values(), ["old", "new"]);
    }

    /// A row that the table would not take any more is changed like any other, and the checks are what they were.
    pub(crate) async fn b11_log_with_rows_from_before_its_checks_is_rebased(database: TestDatabase<Postgres>) {
        let (database, outbox) = tables(database).await;
        commit(&outbox, &database.pool, "k", "1").await;
        for statement in [
            "ALTER TABLE leastlock_outbox DROP CONSTRAINT leastlock_outbox_topic",
            "INSERT INTO leastlock_outbox (shard, event_id, topic) VALUES (0, gen_random_uuid(), 'no topic')",
            "ALTER TABLE leastlock_outbox ADD CONSTRAINT leastlock_outbox_topic \
             CHECK (octet_length(topic) >= 1 AND octet_length(topic) <= 249 AND topic !~ '[^A-Za-z0-9._-]') NOT VALID",
            "UPDATE leastlock_outbox_shard SET system_id = 1, done = '9000000000:9000000000:'",
        ] {
            database.execute(statement).await;
        }
        let checks = async || {
            let checks = "SELECT string_agg(conname || ' ' || pg_get_constraintdef(oid), ', ' ORDER BY conname) \
                          FROM pg_constraint WHERE conrelid = 'leastlock_outbox'::regclass AND contype = 'c'";
            sqlx::query_scalar::<_, String>(checks).fetch_one(&database.pool).await.unwrap()
        };
        let before = checks().await;
        assert_eq!(before.matches("NOT VALID").count(), 3, "{before}");
        // The double changes the rows and nothing else.
        let double =
            sqlx::query("UPDATE leastlock_outbox SET xid = pg_current_xact_id()").execute(&database.pool).await;
        assert!(double.is_err(), "the double must be seen to be refused");

        assert_eq!(rebase(&database.pool).await.unwrap(), Rebased::Done { to_publish: Some(2) });
        assert_eq!(checks().await, before);
        let sink = Recorder::new();
        let relay = Running::start(&database.pool, &sink);
        sink.comes_to(2).await;
        // Nor does such a row end a replay of others.
        let replayed = std::sync::atomic::AtomicU64::new(0);
        until("what is published can be replayed", async || {
            let all = Replay::since(std::time::UNIX_EPOCH);
            replayed.store(outbox.replay(&database.pool, &all).await.unwrap(), std::sync::atomic::Ordering::SeqCst);
            replayed.load(std::sync::atomic::Ordering::SeqCst) > 0
        })
        .await;
        assert_eq!(replayed.into_inner(), 1);
        relay.end().await;
    }

    /// No shard says in which cluster it was published. The double, a relay that looks at the shards only: it publishes nothing, and says so
    /// nowhere.
    pub(crate) async fn b11_dump_of_before_the_first_relay_is_refused_and_rebased(database: TestDatabase<Postgres>) {
        let (database, outbox) = tables(database).await;
        for value in ["1", "2", "3"] {
            commit(&outbox, &database.pool, "k", value).await;
        }
        let cluster = PostgresCluster::start().await;
        cluster.restore(&database.url).await;
        let pool = PgPool::connect(&cluster.url).await.unwrap();
        let outbox = Outbox::open(&pool).await.unwrap();
        commit(&outbox, &pool, "k", "4").await;
        let by_shards = "SELECT count(*) FROM leastlock_outbox_shard AS s CROSS JOIN pg_control_system() AS here \
                         WHERE s.system_id <> here.system_identifier OR pg_snapshot_xmax(s.done) > pg_snapshot_xmax(pg_current_snapshot())";
        let seen: i64 = sqlx::query_scalar(by_shards).fetch_one(&pool).await.unwrap();
        let unread = "SELECT count(*) FROM leastlock_outbox WHERE xid >= pg_snapshot_xmax(pg_current_snapshot())";
        let unread: i64 = sqlx::query_scalar(unread).fetch_one(&pool).await.unwrap();
        assert_eq!((seen, unread), (0, 3), "the double must be seen to lose what was restored");

        let sink = Recorder::new();
        let stopped = Running::start(&pool, &sink).stopped().await;
        assert!(matches!(stopped, Error::EventsAhead { .. }) && stopped.to_string().contains("rebase"), "{stopped}");
        assert_eq!(rebase(&pool).await.unwrap(), Rebased::Done { to_publish: Some(4) });
        assert_eq!(rebase(&pool).await.unwrap(), Rebased::NotNeeded);
        let relay = Running::start(&pool, &sink);
        sink.comes_to(4).await;
        commit(&outbox, &pool, "k", "5").await;
        sink.comes_to(5).await;
        relay.end().await;
        assert_eq!(sink.values(), ["1", "2", "3", "4", "5"]);
        pool.close().await;
    }

    /// As after a switchover, until the relay's connections go to the new primary.
    pub(crate) async fn database_that_only_reads_for_a_while_is_waited_for(database: TestDatabase<Postgres>) {
        let (database, outbox) = tables(database).await;
        commit(&outbox, &database.pool, "k", "1").await;
        let mut admin = PgConnection::connect(&database.url).await.unwrap();
        let name: String = sqlx::query_scalar("SELECT current_database()").fetch_one(&mut admin).await.unwrap();
        let alter = |what: &str| AssertSqlSafe(format!("ALTER DATABASE \"{name}\" {what}"));
        sqlx::query(alter("SET default_transaction_read_only = on")).execute(&mut admin).await.unwrap();
        let refused = "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()";
        let before = database.int(refused).await;
        let pool = PgPool::connect(&database.url).await.unwrap();
        let sink = Recorder::new();
        let relay = Running::start(&pool, &sink);
        until("the relay was refused twice", async || database.int(refused).await >= before + 2).await;
        sqlx::query(alter("RESET default_transaction_read_only")).execute(&mut admin).await.unwrap();
        sink.comes_to(1).await;
        relay.end().await;
        pool.close().await;
    }

    /// The double: the cursor is set to the present, and all rows to the past. What had not been published never is.
    async fn naive_rebase_loses_what_was_left(cluster: &PostgresCluster) {
        let pool = PgPool::connect(&cluster.url).await.unwrap();
        let naive = "CREATE DATABASE naive TEMPLATE template0";
        sqlx::query(naive).execute(&pool).await.unwrap();
        let url = cluster.url.replace("/postgres", "/naive");
        cluster.copy(&cluster.url, &url).await;
        let copy = PgPool::connect(&url).await.unwrap();
        let set = "UPDATE leastlock_outbox_shard SET done = pg_current_snapshot(), target = NULL, last_id = 0, \
                   system_id = (SELECT system_identifier FROM pg_control_system())";
        sqlx::query(set).execute(&copy).await.unwrap();
        sqlx::query("UPDATE leastlock_outbox SET xid = '3'").execute(&copy).await.unwrap();
        let sink = Recorder::new();
        let relay = Running::start(&copy, &sink);
        let outbox = Outbox::open(&copy).await.unwrap();
        commit(&outbox, &copy, "k1", "later").await;
        until("the later event was published", async || sink.values().contains(&"later".to_owned())).await;
        relay.end().await;
        assert!(!sink.values().contains(&"left 1".to_owned()), "the double must be seen to lose what was left");
        copy.close().await;
        pool.close().await;
    }
}
