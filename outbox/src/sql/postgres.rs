//! The statements for PostgreSQL.

use leastlock_core::{Dialect, Row, Statement, commit};
use sqlx::{Connection, Postgres};

use super::OutboxSql;
use crate::error::Error;
use crate::event::{Event, EventId};
use crate::headers::hex;
use crate::parked::sql::postgres::park;
use crate::relay::cursor::{Cursor, Note, Page, Position, ReadFrom, newest_transaction};
use crate::sink::LoggedEvent;

mod shards;

const APPEND_ALL: &str = include_str!("../../sql/postgres/append_all.sql");
const CLAIM: &str = include_str!("../../sql/postgres/claim.sql");
const RENEW: &str = include_str!("../../sql/postgres/renew.sql");
const SEE: &str = include_str!("../../sql/postgres/see.sql");
const BRIEF_WAIT: &str = include_str!("../../sql/postgres/brief_wait.sql");
const PARK_LOCK: &str = include_str!("../../sql/postgres/park_lock.sql");
const READ: &str = include_str!("../../sql/postgres/read.sql");
const PAGE: &str = include_str!("../../sql/postgres/page.sql");
const NOTE: &str = include_str!("../../sql/postgres/note.sql");

impl OutboxSql for Postgres {
    const SHARDED: bool = true;
    const POSITIONS: bool = true;
    const APPEND: &'static str = include_str!("../../sql/postgres/append.sql");
    const SHARDS: &'static str = include_str!("../../sql/postgres/shards.sql");
    const READER: Option<&'static str> = Some(include_str!("../../sql/postgres/reader.sql"));
    const RELEASE: &'static str = include_str!("../../sql/postgres/release.sql");
    /// One to read with, and one for the heartbeat.
    const RELAY_CONNECTIONS: u32 = 2;

    async fn append_all(connection: &mut Self::Connection, events: &[(u16, &Event)]) -> Result<(), sqlx::Error> {
        let texts = |of: &dyn Fn(&Event) -> String| events.iter().map(|(_, event)| of(event)).collect::<Vec<String>>();
        let shards: Vec<i64> = events.iter().map(|(shard, _)| i64::from(*shard)).collect();
        let ids = texts(&|event| event.id.to_string());
        let topics = texts(&|event| event.topic.clone());
        let keys = texts(&|event| stored_bytes(event.key.as_deref()));
        let values = texts(&|event| stored_bytes(event.value.as_deref()));
        let headers = texts(&|event| event.headers.to_stored());
        let partitions: Vec<i64> = events.iter().map(|(_, event)| event.partition.map_or(-1, i64::from)).collect();
        Statement::new(APPEND_ALL)
            .bind(&shards[..])
            .bind(&ids[..])
            .bind(&topics[..])
            .bind(&keys[..])
            .bind(&values[..])
            .bind(&headers[..])
            .bind(&partitions[..])
            .execute::<Self>(connection)
            .await
            .map(drop)
    }

    async fn claim(
        connection: &mut Self::Connection,
        owner: &str,
        among: &[i64],
        most: i64,
        lease_ms: i64,
    ) -> Result<Vec<Cursor>, sqlx::Error> {
        let claim = Statement::new(CLAIM).bind(owner).bind(lease_ms).bind(among).bind(most);
        let rows = claim.fetch_all::<Self>(connection).await?;
        let cursor = |row: &Row<Self>| {
            let position = Position { done: row.text(2)?, target: row.optional_text(3)?, last_id: row.int(4)? };
            Ok(Cursor { shard: row.int(0)?, epoch: row.int(1)?, position })
        };
        rows.iter().map(cursor).collect()
    }

    async fn renew(
        connection: &mut Self::Connection,
        held: &[(i64, i64)],
        lease_ms: i64,
    ) -> Result<Vec<i64>, sqlx::Error> {
        let (shards, epochs): (Vec<i64>, Vec<i64>) = held.iter().copied().unzip();
        let renew = Statement::new(RENEW).bind(shards.as_slice()).bind(epochs.as_slice()).bind(lease_ms);
        renew.fetch_all::<Self>(connection).await?.iter().map(|row| row.int(0)).collect()
    }

    async fn see(connection: &mut Self::Connection, held: &[(i64, i64)]) -> Result<(), sqlx::Error> {
        let (shards, epochs): (Vec<i64>, Vec<i64>) = held.iter().copied().unzip();
        let mut tx = connection.begin().await?;
        Statement::new(BRIEF_WAIT).execute::<Self>(&mut tx).await?;
        Statement::new(SEE).bind(shards.as_slice()).bind(epochs.as_slice()).execute::<Self>(&mut tx).await?;
        commit(tx).await
    }

    async fn read(connection: &mut Self::Connection, from: &[ReadFrom], limit: i64) -> Result<Vec<Page>, Error> {
        let cursors = || from.iter().map(|from| &from.cursor);
        let (in_window, fresh): (Vec<_>, Vec<_>) = cursors().partition(|cursor| cursor.position.target.is_some());
        let mut pages = Vec::with_capacity(from.len());
        if !fresh.is_empty() {
            pages.extend(read_fresh(connection, &fresh, limit).await?);
        }
        if !in_window.is_empty() {
            pages.extend(read_window(connection, &in_window, limit).await?);
        }
        let place = |page: &Page| cursors().position(|cursor| cursor.shard == page.shard());
        pages.sort_by_key(place);
        Ok(pages)
    }

    async fn note(connection: &mut Self::Connection, notes: &[Note], reader: i64) -> Result<Vec<i64>, sqlx::Error> {
        if notes.iter().all(|note| note.parked.is_empty()) {
            return note_positions(connection, notes, reader).await;
        }
        let mut tx = connection.begin_with(Self::BEGIN_WRITE).await?;
        Statement::new(PARK_LOCK).execute::<Self>(&mut tx).await?;
        let own = note_positions(&mut tx, notes, reader).await?;
        let own_notes = notes.iter().filter(|note| own.contains(&note.cursor.shard));
        let parks: Vec<_> =
            own_notes.flat_map(|note| note.to_park().into_iter().map(|park| (note.cursor.shard, park))).collect();
        park(&mut tx, &parks).await?;
        commit(tx).await?;
        Ok(own)
    }
}

/// Moves the positions of shards that are still the caller's, in the order of their numbers; answers these shards.
async fn note_positions(
    connection: &mut sqlx::PgConnection,
    notes: &[Note],
    reader: i64,
) -> Result<Vec<i64>, sqlx::Error> {
    let cursors = || notes.iter().map(|note| &note.cursor);
    let shards: Vec<i64> = cursors().map(|cursor| cursor.shard).collect();
    let epochs: Vec<i64> = cursors().map(|cursor| cursor.epoch).collect();
    let dones: Vec<String> = cursors().map(|cursor| cursor.position.done.clone()).collect();
    let targets: Vec<String> = cursors().map(|cursor| cursor.position.target.clone().unwrap_or_default()).collect();
    let last_ids: Vec<i64> = cursors().map(|cursor| cursor.position.last_id).collect();
    let note = Statement::new(NOTE)
        .bind(shards.as_slice())
        .bind(epochs.as_slice())
        .bind(dones.as_slice())
        .bind(targets.as_slice())
        .bind(last_ids.as_slice())
        .bind(reader);
    note.fetch_all::<Postgres>(connection).await?.iter().map(|row| row.int(0)).collect()
}

/// Bytes as an array of texts carries them: PostgreSQL's own notation, and nothing for none.
fn stored_bytes(bytes: Option<&[u8]>) -> String {
    bytes.map_or_else(String::new, |bytes| format!("\\x{}", hex(bytes)))
}

/// What became visible since each cursor's snapshot.
async fn read_fresh(connection: &mut sqlx::PgConnection, cursors: &[&Cursor], limit: i64) -> Result<Vec<Page>, Error> {
    let database = Error::database::<Postgres>;
    let shards: Vec<i64> = cursors.iter().map(|cursor| cursor.shard).collect();
    let dones: Vec<String> = cursors.iter().map(|cursor| cursor.position.done.clone()).collect();
    let read = Statement::new(READ).bind(shards.as_slice()).bind(dones.as_slice()).bind(limit);
    let rows = read.fetch_all::<Postgres>(connection).await.map_err(database)?;
    let first = rows.first().ok_or_else(|| database(sqlx::Error::RowNotFound))?;
    let current = first.text(0).map_err(database)?;
    for cursor in cursors {
        let done = &cursor.position.done;
        if newest_transaction(done) > newest_transaction(&current) {
            return Err(Error::CursorAhead { shard: cursor.shard, done: done.clone(), current });
        }
    }
    let mut events = by_shard(&rows, 1, cursors)?.into_iter();
    let page = |cursor: &&Cursor| Page::of_snapshot(cursor, &current, events.next().unwrap_or_default(), limit);
    Ok(cursors.iter().map(page).collect())
}

/// The next page of windows that were too large for one.
async fn read_window(connection: &mut sqlx::PgConnection, cursors: &[&Cursor], limit: i64) -> Result<Vec<Page>, Error> {
    let shards: Vec<i64> = cursors.iter().map(|cursor| cursor.shard).collect();
    let dones: Vec<String> = cursors.iter().map(|cursor| cursor.position.done.clone()).collect();
    let targets: Vec<String> = cursors.iter().filter_map(|cursor| cursor.position.target.clone()).collect();
    let last_ids: Vec<i64> = cursors.iter().map(|cursor| cursor.position.last_id).collect();
    let read = Statement::new(PAGE)
        .bind(shards.as_slice())
        .bind(dones.as_slice())
        .bind(targets.as_slice())
        .bind(last_ids.as_slice())
        .bind(limit);
    let rows = read.fetch_all::<Postgres>(connection).await.map_err(Error::database::<Postgres>)?;
    let mut events = by_shard(&rows, 0, cursors)?.into_iter();
    let page = |cursor: &&Cursor| Page::of_window(cursor, events.next().unwrap_or_default(), limit);
    Ok(cursors.iter().map(page).collect())
}

/// The events of rows whose column `first` is the shard, for each cursor in order of their ids; a row without a shard says that
/// nothing is new.
fn by_shard(rows: &[Row<Postgres>], first: usize, cursors: &[&Cursor]) -> Result<Vec<Vec<LoggedEvent>>, Error> {
    let database = Error::database::<Postgres>;
    let mut events: Vec<Vec<LoggedEvent>> = cursors.iter().map(|_| Vec::new()).collect();
    // Rows of a shard come together, so the place is looked up once for each shard.
    let mut current = None;
    for row in rows {
        let Some(shard) = row.optional_int(first).map_err(database)? else { continue };
        let place = match current {
            Some((of, place)) if of == shard => place,
            _ => {
                let place = cursors.iter().position(|cursor| cursor.shard == shard);
                place.ok_or_else(|| database(sqlx::Error::RowNotFound))?
            }
        };
        current = Some((shard, place));
        let id = row.int(first + 1).map_err(database)?;
        let malformed = |error: uuid::Error| Error::Malformed { shard, id, reason: error.to_string() };
        let event_id = EventId::from_slice(&row.bytes(first + 2).map_err(database)?).map_err(malformed)?;
        events[place].push(LoggedEvent::with_id(row, shard, first + 1, id, event_id)?);
    }
    for events in &mut events {
        if !events.is_sorted_by_key(|event| event.id) {
            events.sort_by_key(|event| event.id);
        }
    }
    Ok(events)
}
