//! The statements for MariaDB and MySQL.
//!
//! What locks rows is one message of several statements, from `START TRANSACTION` to `COMMIT`: the server carries it through
//! whatever becomes of the relay, so a relay that was stopped holds no lock. Such a message takes no parameters; they go before
//! it, into variables of the session.

use std::sync::LazyLock;

use leastlock_core::Statement;
use serde_json::json;
use sqlx::mysql::MySqlRow;
use sqlx::{AssertSqlSafe, MySql, MySqlConnection, Row};

use super::OutboxSql;
use crate::error::Error;
use crate::event::Event;
use crate::relay::cursor::{Cursor, Note, Page, Position, ReadFrom};
use crate::sql::found::ReadLimit;

mod gathering;
mod reading;
mod shards;

const CLAIM_FOR: &str = include_str!("../../sql/mysql/claim_for.sql");
const CLAIM: &str = include_str!("../../sql/mysql/claim.sql");
const RENEW_FOR: &str = include_str!("../../sql/mysql/renew_for.sql");
const RENEW: &str = include_str!("../../sql/mysql/renew.sql");
const NOTE_FOR: &str = include_str!("../../sql/mysql/note_for.sql");
const NOTE: &str = include_str!("../../sql/mysql/note.sql");
const PARK_FOR: &str = include_str!("../../sql/mysql/park_for.sql");
const PARK_AND_NOTE: &str = include_str!("../../sql/mysql/park_note.sql");

/// What one statement may carry of events, so that it stays far below `max_allowed_packet` (16 MiB by default) unless a single
/// event does not.
const BYTES_A_STATEMENT: usize = 1 << 20;

/// Texts that append 1, 2, 4, … events: few, so that each is prepared once a connection.
static APPENDS: LazyLock<[String; 8]> = LazyLock::new(|| {
    let one = <MySql as OutboxSql>::APPEND.trim_end();
    let row = one.lines().last().unwrap_or_else(|| unreachable!("the statement has lines"));
    std::array::from_fn(|power| format!("{one}{}", format!(",\n{row}").repeat((1 << power) - 1)))
});

impl OutboxSql for MySql {
    const SHARDED: bool = true;
    const POSITIONS: bool = false;
    const APPEND: &'static str = include_str!("../../sql/mysql/append.sql");
    const SHARDS: &'static str = include_str!("../../sql/mysql/shards.sql");
    const READER: Option<&'static str> = Some(include_str!("../../sql/mysql/reader.sql"));
    const RELEASE: &'static str = include_str!("../../sql/mysql/release.sql");
    /// One to read with, and one for the heartbeat.
    const RELAY_CONNECTIONS: u32 = 2;

    async fn append_all(connection: &mut Self::Connection, events: &[(u16, &Event)]) -> Result<(), sqlx::Error> {
        let mut rest = events;
        while !rest.is_empty() {
            let (together, text) = fitting(rest);
            append_together(connection, text, &rest[..together]).await?;
            rest = &rest[together..];
        }
        Ok(())
    }

    async fn claim(
        connection: &mut Self::Connection,
        owner: &str,
        among: &[i64],
        most: i64,
        lease_ms: i64,
    ) -> Result<Vec<Cursor>, sqlx::Error> {
        let among = json!(among).to_string();
        let variables = Statement::new(CLAIM_FOR).bind(owner).bind(lease_ms).bind(&among);
        variables.execute::<Self>(&mut *connection).await?;
        let cursor = |row: &MySqlRow| {
            let position = Position { done: String::new(), target: None, last_id: 0 };
            Ok(Cursor { shard: row.try_get(0)?, epoch: row.try_get(1)?, position })
        };
        // Nor does a LIMIT take a variable.
        let claim = AssertSqlSafe(CLAIM.replace("{most}", &most.to_string()));
        sqlx::raw_sql(claim).fetch_all(connection).await?.iter().map(cursor).collect()
    }

    async fn renew(
        connection: &mut Self::Connection,
        held: &[(i64, i64)],
        lease_ms: i64,
    ) -> Result<Vec<i64>, sqlx::Error> {
        let mut held = held.to_vec();
        held.sort_unstable();
        let held = json!(held).to_string();
        let variables = Statement::new(RENEW_FOR).bind(lease_ms).bind(&held);
        variables.execute::<Self>(&mut *connection).await?;
        shards(connection, RENEW).await
    }

    /// There is no cursor that a move could leave behind.
    async fn see(_connection: &mut Self::Connection, _held: &[(i64, i64)]) -> Result<(), sqlx::Error> {
        Ok(())
    }

    async fn read(connection: &mut Self::Connection, from: &[ReadFrom], limit: ReadLimit) -> Result<Vec<Page>, Error> {
        reading::read(connection, from, limit).await
    }

    async fn note(
        connection: &mut Self::Connection,
        notes: &[Note],
        reader: i64,
        _idle_ms: i64,
    ) -> Result<Vec<i64>, sqlx::Error> {
        let mut published: Vec<_> =
            notes.iter().map(|note| (note.cursor.shard, note.cursor.epoch, &note.published)).collect();
        published.sort_unstable();
        let published = json!(published).to_string();
        Statement::new(NOTE_FOR).bind(reader).bind(&published).execute::<Self>(&mut *connection).await?;
        let parked: Vec<_> = notes.iter().flat_map(to_park).collect();
        if parked.is_empty() {
            return shards(connection, NOTE).await;
        }
        let parked = json!(parked).to_string();
        Statement::new(PARK_FOR).bind(&parked).execute::<Self>(&mut *connection).await?;
        shards(connection, PARK_AND_NOTE).await
    }
}

/// The events of a note that are to be parked, as `park_note.sql` reads them.
fn to_park(note: &Note) -> Vec<serde_json::Value> {
    let (shard, epoch) = (note.cursor.shard, note.cursor.epoch);
    let parks = note.to_park().into_iter().map(|park| {
        let (blocks, refused) = (i64::from(park.cause.blocks()), i64::from(park.cause.is_refusal()));
        json!([shard, epoch, park.id, park.queue.to_string(), blocks, refused, park.cause.reason()])
    });
    parks.collect()
}

/// The shards that a message of several statements answers with. After an error the connection must not be used again: the
/// transaction may be open.
async fn shards(connection: &mut MySqlConnection, message: &'static str) -> Result<Vec<i64>, sqlx::Error> {
    sqlx::raw_sql(message).fetch_all(connection).await?.iter().map(|row| row.try_get(0)).collect()
}

/// How many of these events go into one statement, and its text.
fn fitting(events: &[(u16, &Event)]) -> (usize, &'static str) {
    let mut bytes = 0;
    let within = events.iter().take_while(|(_, event)| {
        bytes += event.bytes_in_all();
        bytes <= BYTES_A_STATEMENT
    });
    let power = (within.count().max(1).ilog2() as usize).min(APPENDS.len() - 1);
    (1 << power, &APPENDS[power])
}

async fn append_together(
    connection: &mut MySqlConnection,
    text: &'static str,
    events: &[(u16, &Event)],
) -> Result<(), sqlx::Error> {
    let texts: Vec<_> = events.iter().map(|(_, event)| (event.id.to_string(), event.headers.to_stored())).collect();
    let mut append = Statement::new(text);
    for ((shard, event), (id, headers)) in events.iter().zip(&texts) {
        append = append
            .bind(i64::from(*shard))
            .bind(id)
            .bind(&event.topic)
            .bind(event.key.as_deref())
            .bind(event.value.as_deref())
            .bind(headers)
            .bind(event.partition.map(i64::from));
    }
    append.execute::<MySql>(connection).await.map(drop)
}
