//! The outbox that one writes by hand: a table, and a loop that reads a batch, publishes it, waits for the broker and deletes
//! what was acknowledged. One connection, no pauses while there is something to do.

use std::time::Duration;

use leastlock_testkit::database::{MySql, Postgres, Sqlite};
use sqlx::{Connection, Row};
use tokio::task::block_in_place;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::events::Events;
use super::producer::Plain;

/// The pauses between polls that find nothing, from the shortest to the longest: each twice the last, as such loops usually have them.
/// leastlock's relay has others.
const POLL: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(250));
/// Events of a pass: more gain nothing.
pub(crate) const BATCH: u32 = 5000;
/// Rows of one statement that fills the table.
const FILLED_AT_ONCE: u64 = 1000;

/// The statements of this scenario.
pub(crate) trait OutboxByHand: sqlx::Database {
    /// Makes the table.
    const PLAIN_TABLE: &'static str;
    /// Empties it and leastlock's log as cheaply as the engine can.
    const EMPTY: [&'static str; 2];
    /// Makes commits of the filling connection cheap, where a setting can.
    const HASTE: Option<&'static str>;
    /// Tells the planner how large the tables have become, where it does not find out by itself.
    const ANALYZE: Option<&'static str>;

    /// Appends one event.
    fn append(
        connection: &mut Self::Connection,
        event: (Uuid, &str, &[u8], &[u8]),
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Appends some of the events, in their order.
    fn fill(
        connection: &mut Self::Connection,
        topic: &str,
        events: Events,
        numbers: std::ops::Range<u64>,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Reads a batch, hands each event to the producer, waits for all, deletes them; answers how many there were.
    fn pass(
        connection: &mut Self::Connection,
        producer: &mut Plain,
        batch: u32,
    ) -> impl Future<Output = anyhow::Result<u64>> + Send;
}

/// Fills the table with all events.
pub(super) async fn fill<DB: OutboxByHand>(
    connection: &mut DB::Connection,
    topic: &str,
    events: Events,
) -> sqlx::Result<()> {
    let mut next = 0;
    while next < events.count {
        let end = (next + FILLED_AT_ONCE).min(events.count);
        DB::fill(connection, topic, events, next..end).await?;
        next = end;
    }
    Ok(())
}

/// The loop, until so many events were published, or for ever. Between passes it can be stopped.
pub(super) async fn run<DB: OutboxByHand>(
    connection: &mut DB::Connection,
    producer: &mut Plain,
    batch: u32,
    most: u64,
    shutdown: &CancellationToken,
) -> anyhow::Result<u64> {
    let (mut published, mut pause) = (0, POLL.0);
    while published < most && !shutdown.is_cancelled() {
        let passed = DB::pass(connection, producer, batch).await?;
        published += passed;
        if passed > 0 {
            pause = POLL.0;
            continue;
        }
        shutdown.run_until_cancelled(tokio::time::sleep(pause)).await;
        pause = (pause * 2).min(POLL.1);
    }
    Ok(published)
}

impl OutboxByHand for Postgres {
    const PLAIN_TABLE: &'static str = include_str!("../../sql/postgres/plain_outbox.sql");
    const EMPTY: [&'static str; 2] = ["TRUNCATE TABLE plain_outbox", "TRUNCATE TABLE leastlock_outbox"];
    const HASTE: Option<&'static str> = Some("SET synchronous_commit = off");
    const ANALYZE: Option<&'static str> = Some("ANALYZE");

    async fn append(
        connection: &mut Self::Connection,
        (event_id, topic, key, value): (Uuid, &str, &[u8], &[u8]),
    ) -> sqlx::Result<()> {
        const APPEND: &str = include_str!("../../sql/postgres/plain_append.sql");
        sqlx::query(APPEND).bind(event_id).bind(topic).bind(key).bind(value).execute(connection).await.map(drop)
    }

    async fn fill(
        connection: &mut Self::Connection,
        topic: &str,
        events: Events,
        numbers: std::ops::Range<u64>,
    ) -> sqlx::Result<()> {
        const FILL: &str = include_str!("../../sql/postgres/plain_fill.sql");
        let ids: Vec<Uuid> = numbers.clone().map(|_| Uuid::now_v7()).collect();
        let keys: Vec<Vec<u8>> = numbers.clone().map(|number| events.key(number).into_bytes()).collect();
        let values: Vec<Vec<u8>> = numbers.map(|number| events.value(number)).collect();
        sqlx::query(FILL).bind(topic).bind(ids).bind(keys).bind(values).execute(connection).await.map(drop)
    }

    async fn pass(connection: &mut Self::Connection, producer: &mut Plain, batch: u32) -> anyhow::Result<u64> {
        const READ: &str = include_str!("../../sql/postgres/plain_read.sql");
        const DELETE: &str = include_str!("../../sql/postgres/plain_delete.sql");
        let rows = sqlx::query(READ).bind(i64::from(batch)).fetch_all(&mut *connection).await?;
        if rows.is_empty() {
            return Ok(0);
        }
        let ids = block_in_place(|| {
            let mut ids = Vec::with_capacity(rows.len());
            for row in &rows {
                ids.push(row.try_get::<i64, _>(0)?);
                let id = row.try_get::<Uuid, _>(1)?.hyphenated().encode_lower(&mut Uuid::encode_buffer()).to_owned();
                producer.send(row.try_get(2)?, row.try_get(3)?, row.try_get(4)?, &id)?;
            }
            producer.flush()?;
            anyhow::Ok(ids)
        })?;
        sqlx::query(DELETE).bind(&ids).execute(connection).await?;
        Ok(ids.len() as u64)
    }
}

/// Placeholders are `?` and ids travel as text. `$deleted` says what the statement that deletes is told of the ids.
macro_rules! by_hand {
    ($engine:ty, $folder:literal, begin: $begin:literal, empty: $empty:literal, haste: $haste:expr, deleted: $deleted:expr) => {
        impl OutboxByHand for $engine {
            const PLAIN_TABLE: &'static str = include_str!(concat!("../../sql/", $folder, "/plain_outbox.sql"));
            const EMPTY: [&'static str; 2] = [concat!($empty, " plain_outbox"), concat!($empty, " leastlock_outbox")];
            const HASTE: Option<&'static str> = $haste;
            const ANALYZE: Option<&'static str> = None;

            async fn append(
                connection: &mut Self::Connection,
                (event_id, topic, key, value): (Uuid, &str, &[u8], &[u8]),
            ) -> sqlx::Result<()> {
                const APPEND: &str = include_str!("../../sql/plain_append.sql");
                let append = sqlx::query(APPEND).bind(event_id.to_string()).bind(topic).bind(key).bind(value);
                append.execute(connection).await.map(drop)
            }

            async fn fill(
                connection: &mut Self::Connection,
                topic: &str,
                events: Events,
                numbers: std::ops::Range<u64>,
            ) -> sqlx::Result<()> {
                let mut tx = connection.begin_with($begin).await?;
                for number in numbers {
                    let (key, value) = (events.key(number), events.value(number));
                    Self::append(&mut tx, (Uuid::now_v7(), topic, key.as_bytes(), &value)).await?;
                }
                tx.commit().await
            }

            async fn pass(connection: &mut Self::Connection, producer: &mut Plain, batch: u32) -> anyhow::Result<u64> {
                const READ: &str = include_str!("../../sql/plain_read.sql");
                const DELETE: &str = include_str!(concat!("../../sql/", $folder, "/plain_delete.sql"));
                let rows = sqlx::query(READ).bind(i64::from(batch)).fetch_all(&mut *connection).await?;
                if rows.is_empty() {
                    return Ok(0);
                }
                let ids = block_in_place(|| {
                    let mut ids = Vec::with_capacity(rows.len());
                    for row in &rows {
                        ids.push(row.try_get::<i64, _>(0)?);
                        producer.send(row.try_get(2)?, row.try_get(3)?, row.try_get(4)?, row.try_get(1)?)?;
                    }
                    producer.flush()?;
                    anyhow::Ok(ids)
                })?;
                let deleted = $deleted(&ids)?;
                sqlx::query(DELETE).bind(deleted).execute(connection).await?;
                Ok(ids.len() as u64)
            }
        }
    };
}
by_hand!(
    Sqlite, "sqlite", begin: "BEGIN IMMEDIATE", empty: "DELETE FROM", haste: None,
    deleted: |ids: &[i64]| anyhow::Ok(ids.last().copied())
);
by_hand!(
    MySql, "mysql", begin: "BEGIN", empty: "TRUNCATE TABLE", haste: None,
    deleted: |ids: &[i64]| anyhow::Ok(serde_json::to_string(ids)?)
);
