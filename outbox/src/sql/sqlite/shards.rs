//! The statements about shards for SQLite, which has one.

use std::time::Duration;

use leastlock_core::Statement;
use sqlx::Sqlite;

use crate::error::Error;
use crate::relay::balance::{Seen, Survey};
use crate::sql::shards::ShardsSql;

const SURVEY: &str = include_str!("../../../sql/sqlite/survey.sql");
const GIVE_UP: &str = include_str!("../../../sql/sqlite/give_up.sql");
const MARK: &str = include_str!("../../../sql/sqlite/mark.sql");
const UNMARK: &str = include_str!("../../../sql/sqlite/unmark.sql");
const SWEEP: &str = include_str!("../../../sql/sqlite/sweep.sql");

impl ShardsSql for Sqlite {
    const LAG: &'static str = include_str!("../../../sql/sqlite/lag.sql");

    /// Who else is there does not matter: one shard cannot be shared.
    async fn survey(connection: &mut Self::Connection, _owner: &str, _stay_ms: i64) -> Result<Survey, Error> {
        let database = Error::database::<Self>;
        let rows = Statement::new(SURVEY).fetch_all::<Self>(connection).await.map_err(database)?;
        let mut survey = Survey::default();
        for row in &rows {
            let shard = row.int(0).map_err(database)?;
            let (last, highest) = (row.int(3).map_err(database)?, row.int(4).map_err(database)?);
            if last > highest {
                return Err(Error::CursorAhead { shard, done: last.to_string(), current: highest.to_string() });
            }
            let left = u64::try_from(row.int(2).map_err(database)?).unwrap_or_default();
            let owner = row.optional_text(1).map_err(database)?;
            survey.shards.push(Seen { shard, generation: 0, owner, lease_left: Duration::from_millis(left) });
        }
        Ok(survey)
    }

    /// None ever waits.
    async fn open_waiting(_connection: &mut Self::Connection) -> Result<u64, sqlx::Error> {
        Ok(0)
    }

    async fn give_up(connection: &mut Self::Connection, held: &[(i64, i64)]) -> Result<(), sqlx::Error> {
        for &(shard, epoch) in held {
            Statement::new(GIVE_UP).bind(shard).bind(epoch).execute::<Self>(&mut *connection).await?;
        }
        Ok(())
    }

    async fn leave(_connection: &mut Self::Connection, _owner: &str) -> Result<(), sqlx::Error> {
        Ok(())
    }

    async fn mark_published(
        connection: &mut Self::Connection,
        shards: &[i64],
        every_ms: i64,
        keep_ms: i64,
    ) -> Result<(), sqlx::Error> {
        for &shard in shards {
            Statement::new(MARK).bind(shard).bind(every_ms).execute::<Self>(&mut *connection).await?;
            Statement::new(UNMARK).bind(shard).bind(keep_ms).execute::<Self>(&mut *connection).await?;
        }
        Ok(())
    }

    async fn sweep(
        connection: &mut Self::Connection,
        shard: i64,
        keep_ms: i64,
        from: &str,
        limit: i64,
    ) -> Result<(u64, String), sqlx::Error> {
        let sweep = Statement::new(SWEEP).bind(shard).bind(keep_ms).bind(limit);
        Ok((sweep.execute::<Self>(connection).await?, from.to_owned()))
    }
}
