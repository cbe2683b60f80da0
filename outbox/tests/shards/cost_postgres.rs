//! B10, B20: what statements read, counted in pages of the server's buffer, with a million rows before and behind the cursor.

use std::fmt::Write;

use leastlock_testkit::TestDatabase;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Postgres, Row};

use crate::support::tables;

const READ: &str = include_str!("../../sql/postgres/read.sql");
const PAGE: &str = include_str!("../../sql/postgres/page.sql");
const SWEEP: &str = include_str!("../../sql/postgres/sweep.sql");
const SURVEY: &str = include_str!("../../sql/postgres/survey.sql");
const LAG: &str = include_str!("../../sql/postgres/lag.sql");

const SHARDS: i64 = 16;
const PAGE_EVENTS: i64 = 50;
/// What a statement may read of each of sixteen shards, beside the rows that it answers with: a few levels of indexes.
const FEW: i64 = 400;

pub(crate) async fn b10_b20_polls_read_as_much_beside_a_million_rows(database: TestDatabase<Postgres>) {
    let (database, _outbox) = tables(database).await;
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    run(&mut connection, "SET jit = off").await;
    fill(&mut connection, 1_000_000).await;

    // B10: a backlog of a million. Its window is fixed, and paged along the ids from the first of them on.
    let first = format!("SELECT id FROM leastlock_outbox WHERE shard = 0 ORDER BY id LIMIT 1 OFFSET {PAGE_EVENTS}");
    let first: i64 = sqlx::query_scalar(AssertSqlSafe(first)).fetch_one(&mut connection).await.unwrap();
    let end: i64 = sqlx::query_scalar("SELECT max(id) FROM leastlock_outbox").fetch_one(&mut connection).await.unwrap();
    let current: String =
        sqlx::query_scalar("SELECT pg_current_snapshot()::text").fetch_one(&mut connection).await.unwrap();
    let rows = SHARDS * PAGE_EVENTS;
    for last_id in [first, end / 2, end - 2 * rows] {
        let page = arguments(&["1:1:", &current], Some(last_id), PAGE_EVENTS);
        let read = buffers(&mut connection, PAGE, &page).await;
        assert!(read <= 2 * rows + FEW, "the page behind {last_id} read {read}");
    }
    let lag = buffers(&mut connection, LAG, "").await;
    assert!(lag <= SHARDS * 1_000 * 2 + FEW, "the lag read {lag}");

    // B20: the same million, published.
    run(&mut connection, "UPDATE leastlock_outbox_shard SET done = pg_current_snapshot()").await;
    run(
        &mut connection,
        "INSERT INTO leastlock_outbox_mark (shard, noted_at, done) \
        SELECT shard, clock_timestamp() - interval '2 days', '1:1:' FROM leastlock_outbox_shard",
    )
    .await;
    let done: String = sqlx::query_scalar("SELECT done::text FROM leastlock_outbox_shard LIMIT 1")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    fill(&mut connection, rows).await;
    for (statement, what, arguments) in [
        (READ, "a poll", arguments(&[&done], None, PAGE_EVENTS)),
        (SURVEY, "a look at who is there", "('me', 1000)".to_owned()),
        (SWEEP, "a sweep that finds nothing", "(0, 86400000, '0', 1000)".to_owned()),
        (LAG, "the lag", String::new()),
    ] {
        let read = buffers(&mut connection, statement, &arguments).await;
        assert!(read <= 2 * rows + FEW, "{what} read {read}");
    }
    // The double pages the window from the beginning of the log.
    let from_zero = arguments(&[&done, &now(&mut connection).await], Some(0), PAGE_EVENTS);
    let read = buffers(&mut connection, PAGE, &from_zero).await;
    assert!(read > 10 * (2 * rows + FEW), "the double must be seen to read everything: {read}");
}

async fn now(connection: &mut PgConnection) -> String {
    sqlx::query_scalar("SELECT pg_current_snapshot()::text").fetch_one(connection).await.unwrap()
}

/// Appends events to all shards, and lets the server know of them.
async fn fill(connection: &mut PgConnection, events: i64) {
    let fill = format!(
        "INSERT INTO leastlock_outbox (shard, event_id, topic, value) \
         SELECT n % {SHARDS}, gen_random_uuid(), 't', 'v' FROM generate_series(1, {events}) AS n"
    );
    run(connection, &fill).await;
    run(connection, "VACUUM ANALYZE leastlock_outbox").await;
}

async fn run(connection: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection).await.unwrap();
}

/// The arguments of a read: an array of the shards, one for each of the texts, the last id where there is one, the limit, and what comes whole.
fn arguments(texts: &[&str], last_id: Option<i64>, limit: i64) -> String {
    let array = |of: &dyn Fn(i64) -> String| (0..SHARDS).map(of).collect::<Vec<_>>().join(",");
    let mut arguments = format!("(ARRAY[{}]::bigint[]", array(&|shard| shard.to_string()));
    for text in texts {
        write!(arguments, ", ARRAY[{}]::text[]", array(&|_| format!("'{text}'"))).unwrap();
    }
    if let Some(last_id) = last_id {
        write!(arguments, ", ARRAY[{}]::bigint[]", array(&|_| last_id.to_string())).unwrap();
    }
    format!("{arguments}, {limit}, 10485)")
}

/// The most pages that the statement touches, planned for these arguments and for any.
async fn buffers(connection: &mut PgConnection, statement: &str, arguments: &str) -> i64 {
    let mut most = 0;
    for mode in ["force_custom_plan", "force_generic_plan"] {
        run(connection, &format!("SET plan_cache_mode = {mode}; PREPARE looked_at AS {statement}")).await;
        let explain = format!("EXPLAIN (ANALYZE, BUFFERS) EXECUTE looked_at {arguments}");
        let lines = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(&mut *connection).await.unwrap();
        let lines: Vec<String> = lines.iter().map(|line| line.get(0)).collect();
        run(connection, "DEALLOCATE looked_at").await;
        // The first line of buffers is of the whole statement.
        let buffers = lines.iter().find(|line| line.contains("Buffers:")).expect("the buffers are counted");
        let count = |kind: &str| -> i64 {
            let figure = buffers.split_whitespace().find_map(|word| word.strip_prefix(kind));
            figure.map_or(0, |figure| figure.parse().expect("a number"))
        };
        most = most.max(count("hit=") + count("read="));
    }
    most
}
