//! The statements for PostgreSQL.

use std::collections::HashMap;

use leastlock_core::{Dialect, Row, Statement, commit};
use sqlx::{Connection, Postgres};

use super::OutboxSql;
use crate::error::Error;
use crate::event::{Event, EventId};
use crate::headers::hex;
use crate::parked::sql::postgres::park;
use crate::relay::connection::bound_transaction;
use crate::relay::cursor::{Cursor, Note, Page, Position, ReadFrom, newest_transaction};
use crate::sink::LoggedEvent;
use crate::sql::found::{Found, ReadLimit, keep_what_fits, put, to_bring};

mod shards;

const APPEND_ALL: &str = include_str!("../../sql/postgres/append_all.sql");
const CLAIM: &str = include_str!("../../sql/postgres/claim.sql");
const RENEW: &str = include_str!("../../sql/postgres/renew.sql");
const SEE: &str = include_str!("../../sql/postgres/see.sql");
const BRIEF_WAIT: &str = include_str!("../../sql/postgres/brief_wait.sql");
const PARK_LOCK: &str = include_str!("../../sql/postgres/park_lock.sql");
const READ: &str = include_str!("../../sql/postgres/read.sql");
const BY_ID: &str = include_str!("../../sql/postgres/by_id.sql");
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
        let mut tx = connection.begin_with(Self::BEGIN_WRITE).await?;
        Statement::new(BRIEF_WAIT).execute::<Self>(&mut tx).await?;
        Statement::new(SEE).bind(shards.as_slice()).bind(epochs.as_slice()).execute::<Self>(&mut tx).await?;
        commit(tx).await
    }

    async fn read(connection: &mut Self::Connection, from: &[ReadFrom], limit: ReadLimit) -> Result<Vec<Page>, Error> {
        let cursors = || from.iter().map(|from| &from.cursor);
        let (in_window, fresh): (Vec<_>, Vec<_>) = cursors().partition(|cursor| cursor.position.target.is_some());
        let each = limit.of_each(from.len());
        let (mut found, mut current) = (HashMap::with_capacity(from.len()), String::new());
        if !fresh.is_empty() {
            let (shards, now) = read_fresh(connection, &fresh, each).await?;
            current = now;
            found.extend(fresh.iter().map(|cursor| cursor.shard).zip(shards));
        }
        if !in_window.is_empty() {
            let shards = read_window(connection, &in_window, each).await?;
            found.extend(in_window.iter().map(|cursor| cursor.shard).zip(shards));
        }
        let mut found: Vec<Found> = cursors().map(|cursor| found.remove(&cursor.shard).unwrap_or_default()).collect();
        keep_what_fits(&mut found, limit.bytes);
        bring(connection, &mut found).await?;
        let page = |(cursor, Found { events, is_cut, .. }): (&Cursor, Found)| match cursor.position.target {
            Some(_) => Page::of_window(cursor, events, is_cut),
            None => Page::of_snapshot(cursor, &current, events, is_cut),
        };
        Ok(cursors().zip(found).map(page).collect())
    }

    async fn note(
        connection: &mut Self::Connection,
        notes: &[Note],
        reader: i64,
        idle_ms: i64,
    ) -> Result<Vec<i64>, sqlx::Error> {
        if notes.iter().all(|note| note.parked.is_empty()) {
            return note_positions(connection, notes, reader).await;
        }
        let mut tx = connection.begin_with(Self::BEGIN_WRITE).await?;
        bound_transaction::<Self>(&mut tx, idle_ms).await?;
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

/// What became visible since each cursor's snapshot, and the snapshot of the read.
async fn read_fresh(
    connection: &mut sqlx::PgConnection,
    cursors: &[&Cursor],
    each: (i64, i64),
) -> Result<(Vec<Found>, String), Error> {
    let database = Error::database::<Postgres>;
    let shards: Vec<i64> = cursors.iter().map(|cursor| cursor.shard).collect();
    let dones: Vec<String> = cursors.iter().map(|cursor| cursor.position.done.clone()).collect();
    let read = Statement::new(READ).bind(shards.as_slice()).bind(dones.as_slice()).bind(each.0).bind(each.1);
    let rows = read.fetch_all::<Postgres>(connection).await.map_err(database)?;
    let first = rows.first().ok_or_else(|| database(sqlx::Error::RowNotFound))?;
    let current = first.text(0).map_err(database)?;
    for cursor in cursors {
        let done = &cursor.position.done;
        if newest_transaction(done) > newest_transaction(&current) {
            return Err(Error::CursorAhead { shard: cursor.shard, done: done.clone(), current });
        }
    }
    Ok((by_shard(&rows, 1, cursors, each)?, current))
}

/// The next page of windows that were too large for one.
async fn read_window(
    connection: &mut sqlx::PgConnection,
    cursors: &[&Cursor],
    each: (i64, i64),
) -> Result<Vec<Found>, Error> {
    let shards: Vec<i64> = cursors.iter().map(|cursor| cursor.shard).collect();
    let dones: Vec<String> = cursors.iter().map(|cursor| cursor.position.done.clone()).collect();
    let targets: Vec<String> = cursors.iter().filter_map(|cursor| cursor.position.target.clone()).collect();
    let last_ids: Vec<i64> = cursors.iter().map(|cursor| cursor.position.last_id).collect();
    let read = Statement::new(PAGE)
        .bind(shards.as_slice())
        .bind(dones.as_slice())
        .bind(targets.as_slice())
        .bind(last_ids.as_slice())
        .bind(each.0)
        .bind(each.1);
    let rows = read.fetch_all::<Postgres>(connection).await.map_err(Error::database::<Postgres>)?;
    by_shard(&rows, 0, cursors, each)
}

/// Brings the large events that there is room for.
async fn bring(connection: &mut sqlx::PgConnection, found: &mut [Found]) -> Result<(), Error> {
    let wanted = to_bring(found);
    if wanted.is_empty() {
        return Ok(());
    }
    let (shards, ids): (Vec<i64>, Vec<i64>) = wanted.into_iter().unzip();
    let by_id = Statement::new(BY_ID).bind(shards.as_slice()).bind(ids.as_slice());
    let rows = by_id.fetch_all::<Postgres>(connection).await.map_err(Error::database::<Postgres>)?;
    put(found, rows.iter().map(|row| event_in(row, 0)).collect::<Result<_, _>>()?);
    Ok(())
}

/// The events of rows whose column `first` is the shard, for each cursor in order of their ids; a row without a shard says that
/// nothing is new.
fn by_shard(
    rows: &[Row<Postgres>],
    first: usize,
    cursors: &[&Cursor],
    (most, whole): (i64, i64),
) -> Result<Vec<Found>, Error> {
    let database = Error::database::<Postgres>;
    let mut shards: Vec<Found> = cursors.iter().map(|_| Found::default()).collect();
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
        shards[place].push(event_in(row, first)?, row.int(first + 9).map_err(database)?, whole);
    }
    for Found { events, is_cut, .. } in &mut shards {
        if !events.is_sorted_by_key(|event| event.id) {
            events.sort_by_key(|event| event.id);
        }
        *is_cut = i64::try_from(events.len()).is_ok_and(|read| read >= most);
    }
    Ok(shards)
}

/// The event of a row whose column `first` is the shard.
fn event_in(row: &Row<Postgres>, first: usize) -> Result<LoggedEvent, Error> {
    let database = Error::database::<Postgres>;
    let (shard, id) = (row.int(first).map_err(database)?, row.int(first + 1).map_err(database)?);
    let malformed = |error: uuid::Error| Error::Malformed { shard, id, reason: error.to_string() };
    let event_id = EventId::from_slice(&row.bytes(first + 2).map_err(database)?).map_err(malformed)?;
    LoggedEvent::with_id(row, shard, first + 1, id, event_id)
}
