//! The statements about shards for PostgreSQL.

use std::time::Duration;

use leastlock_core::{Row, Statement};
use sqlx::Postgres;

use crate::error::Error;
use crate::relay::balance::{Seen, Survey};
use crate::relay::cursor::newest_transaction;
use crate::sql::shards::ShardsSql;

const SURVEY: &str = include_str!("../../../sql/postgres/survey.sql");
const OPEN_WAITING: &str = include_str!("../../../sql/postgres/open_waiting.sql");
const GIVE_UP: &str = include_str!("../../../sql/postgres/give_up.sql");
const LEAVE: &str = include_str!("../../../sql/postgres/leave.sql");
const MARK: &str = include_str!("../../../sql/postgres/mark.sql");
const SWEEP: &str = include_str!("../../../sql/postgres/sweep.sql");

impl ShardsSql for Postgres {
    const LAG: &'static str = include_str!("../../../sql/postgres/lag.sql");

    async fn survey(connection: &mut Self::Connection, owner: &str, stay_ms: i64) -> Result<Survey, Error> {
        let survey = Statement::new(SURVEY).bind(owner).bind(stay_ms);
        let rows = survey.fetch_all::<Self>(connection).await.map_err(Error::database::<Self>)?;
        let mut found = Survey::default();
        for row in &rows {
            note_row(row, &mut found)?;
        }
        Ok(found)
    }

    async fn open_waiting(connection: &mut Self::Connection) -> Result<u64, sqlx::Error> {
        Statement::new(OPEN_WAITING).execute::<Self>(connection).await
    }

    async fn give_up(connection: &mut Self::Connection, held: &[(i64, i64)]) -> Result<(), sqlx::Error> {
        let (shards, epochs): (Vec<i64>, Vec<i64>) = held.iter().copied().unzip();
        let give_up = Statement::new(GIVE_UP).bind(shards.as_slice()).bind(epochs.as_slice());
        give_up.execute::<Self>(connection).await.map(drop)
    }

    async fn leave(connection: &mut Self::Connection, owner: &str) -> Result<(), sqlx::Error> {
        Statement::new(LEAVE).bind(owner).execute::<Self>(connection).await.map(drop)
    }

    async fn mark_published(
        connection: &mut Self::Connection,
        shards: &[i64],
        every_ms: i64,
        keep_ms: i64,
    ) -> Result<(), sqlx::Error> {
        Statement::new(MARK).bind(shards).bind(every_ms).bind(keep_ms).execute::<Self>(connection).await.map(drop)
    }

    async fn sweep(
        connection: &mut Self::Connection,
        shard: i64,
        keep_ms: i64,
        from: &str,
        limit: i64,
    ) -> Result<(u64, String), sqlx::Error> {
        let sweep = Statement::new(SWEEP).bind(shard).bind(keep_ms).bind(from).bind(limit);
        let row = sweep.fetch_one::<Self>(connection).await?;
        let deleted = u64::try_from(row.int(0)?).unwrap_or_default();
        Ok((deleted, row.optional_text(1)?.unwrap_or_else(|| from.to_owned())))
    }
}

/// A row of the survey: a shard, or a relay.
fn note_row(row: &Row<Postgres>, survey: &mut Survey) -> Result<(), Error> {
    let database = Error::database::<Postgres>;
    let owner = row.optional_text(1).map_err(database)?;
    let Some(shard) = row.optional_int(0).map_err(database)? else {
        survey.relays.extend(owner);
        return Ok(());
    };
    let here = row.int(4).map_err(database)?;
    if let Some(stored) = row.optional_int(3).map_err(database)?.filter(|stored| *stored != here) {
        return Err(Error::Moved { shard, published_in: stored.cast_unsigned(), here: here.cast_unsigned() });
    }
    let (done, current) = (row.text(5).map_err(database)?, row.text(6).map_err(database)?);
    if newest_transaction(&done) > newest_transaction(&current) {
        return Err(Error::CursorAhead { shard, done, current });
    }
    if let Some(xid) = row.optional_text(8).map_err(database)? {
        return Err(Error::EventsAhead { shard, xid, current });
    }
    if row.int(7).map_err(database)? == 1 {
        survey.waiting = true;
        return Ok(());
    }
    let left = row.optional_int(2).map_err(database)?.and_then(|left| u64::try_from(left).ok());
    let (generation, lease_left) = (row.int(9).map_err(database)?, Duration::from_millis(left.unwrap_or_default()));
    survey.shards.push(Seen { shard, generation, owner, lease_left });
    Ok(())
}
