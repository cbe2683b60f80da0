//! The statements for SQLite.

use leastlock_core::{Dialect, Statement, commit};
use sqlx::{Connection, Sqlite};

use super::OutboxSql;
use crate::error::Error;
use crate::event::Event;
use crate::outbox::append_one;
use crate::parked::sql::sqlite::park;
use crate::relay::cursor::{Cursor, Note, Page, Position, ReadFrom};
use crate::sink::LoggedEvent;
use crate::sql::found::{Found, ReadLimit, keep_what_fits, put, to_bring};

mod shards;

const CLAIM: &str = include_str!("../../sql/sqlite/claim.sql");
const RENEW: &str = include_str!("../../sql/sqlite/renew.sql");
const READ: &str = include_str!("../../sql/sqlite/read.sql");
const BY_ID: &str = include_str!("../../sql/sqlite/by_id.sql");
const NOTE: &str = include_str!("../../sql/sqlite/note.sql");

impl OutboxSql for Sqlite {
    const SHARDED: bool = false;
    const POSITIONS: bool = true;
    const APPEND: &'static str = include_str!("../../sql/sqlite/append.sql");
    const SHARDS: &'static str = include_str!("../../sql/sqlite/shards.sql");
    const READER: Option<&'static str> = None;
    const RELEASE: &'static str = include_str!("../../sql/sqlite/release.sql");
    /// None is kept, so the heartbeat and the relay can take turns.
    const RELAY_CONNECTIONS: u32 = 1;

    /// The statements run in the process, so one for all would gain nothing.
    async fn append_all(connection: &mut Self::Connection, events: &[(u16, &Event)]) -> Result<(), sqlx::Error> {
        for (shard, event) in events {
            append_one::<Self>(connection, *shard, event).await?;
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
        let most = if among.is_empty() { 0 } else { most };
        let claim = Statement::new(CLAIM).bind(owner).bind(lease_ms).bind(most);
        let rows = claim.fetch_all::<Self>(connection).await?;
        let cursor = |row: &leastlock_core::Row<Self>| {
            let position = Position { done: String::new(), target: None, last_id: row.int(2)? };
            Ok(Cursor { shard: row.int(0)?, epoch: row.int(1)?, position })
        };
        rows.iter().map(cursor).collect()
    }

    async fn renew(
        connection: &mut Self::Connection,
        held: &[(i64, i64)],
        lease_ms: i64,
    ) -> Result<Vec<i64>, sqlx::Error> {
        let mut renewed = Vec::with_capacity(held.len());
        for &(shard, epoch) in held {
            let renew = Statement::new(RENEW).bind(shard).bind(epoch).bind(lease_ms);
            if renew.execute::<Self>(&mut *connection).await? == 1 {
                renewed.push(shard);
            }
        }
        Ok(renewed)
    }

    /// A file is moved whole, its last id with it.
    async fn see(_connection: &mut Self::Connection, _held: &[(i64, i64)]) -> Result<(), sqlx::Error> {
        Ok(())
    }

    async fn read(connection: &mut Self::Connection, from: &[ReadFrom], limit: ReadLimit) -> Result<Vec<Page>, Error> {
        let database = Error::database::<Self>;
        let (most, whole) = limit.of_each(from.len());
        let mut shards = Vec::with_capacity(from.len());
        for ReadFrom { cursor, .. } in from {
            let read = Statement::new(READ).bind(cursor.position.last_id).bind(most).bind(whole);
            let mut found = Found::default();
            for row in &read.fetch_all::<Self>(&mut *connection).await.map_err(database)? {
                found.push(LoggedEvent::found_in(row, cursor.shard, 0)?, row.int(8).map_err(database)?, whole);
            }
            shards.push(found);
        }
        keep_what_fits(&mut shards, limit.bytes);
        let mut brought = Vec::new();
        for (shard, id) in to_bring(&shards) {
            let row =
                Statement::new(BY_ID).bind(id).fetch_optional::<Self>(&mut *connection).await.map_err(database)?;
            brought.extend(row.map(|row| LoggedEvent::found_in(&row, shard, 0)).transpose()?);
        }
        put(&mut shards, brought);
        Ok(from.iter().zip(shards).map(|(from, found)| Page::of_cursor(&from.cursor, found.events)).collect())
    }

    async fn note(
        connection: &mut Self::Connection,
        notes: &[Note],
        _reader: i64,
        _idle_ms: i64,
    ) -> Result<Vec<i64>, sqlx::Error> {
        if notes.iter().all(|note| note.parked.is_empty()) {
            return note_positions(connection, notes).await;
        }
        let mut tx = connection.begin_with(Self::BEGIN_WRITE).await?;
        let own = note_positions(&mut tx, notes).await?;
        for note in notes.iter().filter(|note| !note.parked.is_empty() && own.contains(&note.cursor.shard)) {
            park(&mut tx, note.cursor.shard, &note.to_park()).await?;
        }
        commit(tx).await?;
        Ok(own)
    }
}

/// Moves the position of the one shard, if it is still the caller's; answers it.
async fn note_positions(connection: &mut sqlx::SqliteConnection, notes: &[Note]) -> Result<Vec<i64>, sqlx::Error> {
    let mut own = Vec::with_capacity(notes.len());
    // There is one shard, so this is one statement.
    for Note { cursor, .. } in notes {
        let note = Statement::new(NOTE).bind(cursor.shard).bind(cursor.epoch).bind(cursor.position.last_id);
        if note.execute::<Sqlite>(&mut *connection).await? == 1 {
            own.push(cursor.shard);
        }
    }
    Ok(own)
}
