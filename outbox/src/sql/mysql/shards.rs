//! The statements about shards for MariaDB and MySQL, where what was published is deleted at once.

use std::time::Duration;

use leastlock_core::Statement;
use serde_json::json;
use sqlx::{MySql, Row};

use crate::error::Error;
use crate::relay::balance::{Seen, Survey};
use crate::sql::shards::ShardsSql;

const SURVEY_FOR: &str = include_str!("../../../sql/mysql/survey_for.sql");
const SURVEY: &str = include_str!("../../../sql/mysql/survey.sql");
const GIVE_UP: &str = include_str!("../../../sql/mysql/give_up.sql");
const LEAVE: &str = include_str!("../../../sql/mysql/leave.sql");

impl ShardsSql for MySql {
    const LAG: &'static str = include_str!("../../../sql/mysql/lag.sql");

    /// There is no cursor that could be ahead of a restored log.
    async fn survey(connection: &mut Self::Connection, owner: &str, stay_ms: i64) -> Result<Survey, Error> {
        let database = Error::database::<Self>;
        let variables = Statement::new(SURVEY_FOR).bind(owner).bind(stay_ms);
        variables.execute::<Self>(&mut *connection).await.map_err(database)?;
        let mut survey = Survey::default();
        for row in sqlx::raw_sql(SURVEY).fetch_all(connection).await.map_err(database)? {
            let owner: Option<Vec<u8>> = row.try_get(1).map_err(database)?;
            let owner = owner.map(|owner| String::from_utf8_lossy(&owner).into_owned());
            let Some(shard) = row.try_get(0).map_err(database)? else {
                survey.relays.extend(owner);
                continue;
            };
            let left: Option<i64> = row.try_get(2).map_err(database)?;
            let left = left.and_then(|left| u64::try_from(left).ok()).unwrap_or_default();
            survey.shards.push(Seen { shard, generation: 0, owner, lease_left: Duration::from_millis(left) });
        }
        Ok(survey)
    }

    /// None ever waits.
    async fn open_waiting(_connection: &mut Self::Connection) -> Result<u64, sqlx::Error> {
        Ok(0)
    }

    async fn give_up(connection: &mut Self::Connection, held: &[(i64, i64)]) -> Result<(), sqlx::Error> {
        let mut held = held.to_vec();
        held.sort_unstable();
        let held = json!(held).to_string();
        Statement::new(GIVE_UP).bind(&held).execute::<Self>(connection).await.map(drop)
    }

    async fn leave(connection: &mut Self::Connection, owner: &str) -> Result<(), sqlx::Error> {
        Statement::new(LEAVE).bind(owner).execute::<Self>(connection).await.map(drop)
    }

    /// Nothing that was published is kept.
    async fn mark_published(
        _connection: &mut Self::Connection,
        _shards: &[i64],
        _every_ms: i64,
        _keep_ms: i64,
    ) -> Result<(), sqlx::Error> {
        Ok(())
    }

    /// It was deleted when it was noted.
    async fn sweep(
        _connection: &mut Self::Connection,
        _shard: i64,
        _keep_ms: i64,
        from: &str,
        _limit: i64,
    ) -> Result<(u64, String), sqlx::Error> {
        Ok((0, from.to_owned()))
    }
}
