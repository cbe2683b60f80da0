//! The statements for SQLite.

use leastlock_core::Statement;
use sqlx::Sqlite;

use super::OutboxSql;
use crate::error::Error;
use crate::relay::cursor::{Cursor, Page, Position};
use crate::sink::LoggedEvent;

const CLAIM: &str = include_str!("../../sql/sqlite/claim.sql");
const READ: &str = include_str!("../../sql/sqlite/read.sql");
const ADVANCE: &str = include_str!("../../sql/sqlite/advance.sql");

impl OutboxSql for Sqlite {
    const SHARDED: bool = false;
    const APPEND: &'static str = include_str!("../../sql/sqlite/append.sql");
    const SHARDS: &'static str = include_str!("../../sql/sqlite/shards.sql");
    const RENEW: &'static str = include_str!("../../sql/sqlite/renew.sql");
    const READER: Option<&'static str> = None;
    const RELEASE: &'static str = include_str!("../../sql/sqlite/release.sql");

    async fn claim(connection: &mut Self::Connection, owner: &str, lease_ms: i64) -> Result<Vec<Cursor>, sqlx::Error> {
        let rows = Statement::new(CLAIM).bind(owner).bind(lease_ms).fetch_all::<Self>(connection).await?;
        let cursor = |row: &leastlock_core::Row<Self>| {
            let position = Position { done: String::new(), target: None, last_id: row.int(2)? };
            Ok(Cursor { shard: row.int(0)?, epoch: row.int(1)?, position })
        };
        rows.iter().map(cursor).collect()
    }

    async fn read(connection: &mut Self::Connection, cursors: &[Cursor], limit: i64) -> Result<Vec<Page>, Error> {
        let mut pages = Vec::with_capacity(cursors.len());
        for cursor in cursors {
            let read = Statement::new(READ).bind(cursor.position.last_id).bind(limit);
            let rows = read.fetch_all::<Self>(&mut *connection).await.map_err(Error::database::<Self>)?;
            let events =
                rows.iter().map(|row| LoggedEvent::from_row(row, cursor.shard, 0)).collect::<Result<_, _>>()?;
            pages.push(Page::of_cursor(cursor, events));
        }
        Ok(pages)
    }

    async fn advance(connection: &mut Self::Connection, cursors: &[Cursor]) -> Result<Vec<i64>, sqlx::Error> {
        let mut own = Vec::with_capacity(cursors.len());
        for cursor in cursors {
            let advance = Statement::new(ADVANCE).bind(cursor.shard).bind(cursor.epoch).bind(cursor.position.last_id);
            if advance.execute::<Self>(&mut *connection).await? == 1 {
                own.push(cursor.shard);
            }
        }
        Ok(own)
    }
}
