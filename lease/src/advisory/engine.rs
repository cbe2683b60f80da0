//! The statements of a session, per engine.

use leastlock_core::Dialect;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use leastlock_core::Statement;
use sqlx::Pool;
#[cfg(feature = "mysql")]
use sqlx::{AssertSqlSafe, MySql, MySqlConnection};
#[cfg(feature = "postgres")]
use sqlx::{PgConnection, Postgres};

use super::Lock;
use crate::store::Holder;
#[cfg(any(feature = "postgres", feature = "mysql"))]
use crate::{store::milliseconds, token::OwnerHash};

/// An SQL engine whose sessions can keep locks. Sealed: implemented for `sqlx::Postgres` and `sqlx::MySql`, each behind the
/// feature of its name.
pub trait AdvisorySql: Speaks {}

/// What differs between the engines. Public for the bound above, and not to be named outside.
pub trait Speaks: Dialect {
    /// Bounds the session's idling; answers its number.
    fn prepare(connection: &mut Self::Connection, lock: &Lock)
    -> impl Future<Output = Result<i64, sqlx::Error>> + Send;

    /// Takes the lock if it is free.
    fn try_lock(
        connection: &mut Self::Connection,
        lock: &Lock,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    /// Waits for it, in the server.
    fn wait(connection: &mut Self::Connection, lock: &Lock) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Whether the session of that number has it.
    fn stands(
        connection: &mut Self::Connection,
        lock: &Lock,
        session: i64,
    ) -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    /// Gives it up; whether it was there.
    fn unlock(connection: &mut Self::Connection, lock: &Lock)
    -> impl Future<Output = Result<bool, sqlx::Error>> + Send;

    /// Who has it.
    fn holder(
        connection: &mut Self::Connection,
        lock: &Lock,
    ) -> impl Future<Output = Result<Holder, sqlx::Error>> + Send;

    /// Ends the wait of the session of that number.
    fn cancel(pool: &Pool<Self>, session: i64) -> impl Future<Output = Result<(), sqlx::Error>> + Send;
}

#[cfg(feature = "postgres")]
impl AdvisorySql for Postgres {}

#[cfg(feature = "postgres")]
impl Speaks for Postgres {
    async fn prepare(connection: &mut PgConnection, lock: &Lock) -> Result<i64, sqlx::Error> {
        let prepare = Statement::new(include_str!("../../sql/postgres/advisory/prepare.sql"));
        prepare.bind(milliseconds(lock.ttl).max(1)).fetch_one::<Self>(connection).await?.int(0)
    }

    async fn try_lock(connection: &mut PgConnection, lock: &Lock) -> Result<bool, sqlx::Error> {
        let attempt = Statement::new(include_str!("../../sql/postgres/advisory/try.sql"))
            .bind(lock.key)
            .bind(&*lock.owner)
            .bind(&*lock.about);
        Ok(attempt.fetch_one::<Self>(connection).await?.optional_text(0)?.is_some())
    }

    async fn wait(connection: &mut PgConnection, lock: &Lock) -> Result<(), sqlx::Error> {
        let wait = Statement::new(include_str!("../../sql/postgres/advisory/wait.sql"))
            .bind(lock.key)
            .bind(&*lock.owner)
            .bind(&*lock.about);
        wait.fetch_one::<Self>(connection).await.map(drop)
    }

    async fn stands(connection: &mut PgConnection, lock: &Lock, session: i64) -> Result<bool, sqlx::Error> {
        let stands =
            Statement::new(include_str!("../../sql/postgres/advisory/stands.sql")).bind(lock.key).bind(session);
        Ok(stands.fetch_one::<Self>(connection).await?.int(0)? > 0)
    }

    async fn unlock(connection: &mut PgConnection, lock: &Lock) -> Result<bool, sqlx::Error> {
        let unlock = Statement::new(include_str!("../../sql/postgres/advisory/unlock.sql")).bind(lock.key);
        Ok(unlock.fetch_one::<Self>(connection).await?.int(0)? == 1)
    }

    async fn holder(connection: &mut PgConnection, lock: &Lock) -> Result<Holder, sqlx::Error> {
        let holder = Statement::new(include_str!("../../sql/postgres/advisory/holder.sql")).bind(lock.key);
        let Some(row) = holder.fetch_optional::<Self>(connection).await? else { return Ok(nobody()) };
        let (about, idle, now) = (row.text(0)?, duration(row.int(1)?), row.int(2)?);
        let stranger = Holder::new(OwnerHash::of(&row.int(3)?.to_be_bytes()), std::time::Duration::ZERO, lock.ttl);
        Ok(read(&about, idle, now).unwrap_or(stranger))
    }

    async fn cancel(pool: &Pool<Self>, session: i64) -> Result<(), sqlx::Error> {
        let cancel = Statement::new(include_str!("../../sql/postgres/advisory/cancel.sql")).bind(session);
        cancel.fetch_one::<Self>(&mut *pool.acquire().await?).await.map(drop)
    }
}

/// Reads what a session that has the lock says of itself: `leastlock OWNER SINCE_MS TTL_MS JOB`.
#[cfg(feature = "postgres")]
fn read(about: &str, idle: std::time::Duration, now_ms: i64) -> Option<Holder> {
    let mut words = about.strip_prefix("leastlock ")?.splitn(4, ' ');
    let owner = OwnerHash::from_hex(words.next()?)?;
    let since: i64 = words.next()?.parse().ok()?;
    let ttl = duration(words.next()?.parse().ok()?);
    let job = words.next().filter(|job| !job.is_empty()).map(Into::into);
    Some(Holder { job, ..Holder::new(owner, duration(now_ms - since), ttl.saturating_sub(idle)) })
}

#[cfg(feature = "mysql")]
impl AdvisorySql for MySql {}

#[cfg(feature = "mysql")]
impl Speaks for MySql {
    async fn prepare(connection: &mut MySqlConnection, lock: &Lock) -> Result<i64, sqlx::Error> {
        let seconds = milliseconds(lock.ttl).saturating_add(999) / 1000;
        let bound = Statement::new(include_str!("../../sql/mysql/advisory/prepare.sql")).bind(seconds.max(1));
        bound.execute::<Self>(&mut *connection).await?;
        let session = Statement::new(include_str!("../../sql/mysql/advisory/session.sql"));
        session.fetch_one::<Self>(connection).await?.int(0)
    }

    async fn try_lock(connection: &mut MySqlConnection, lock: &Lock) -> Result<bool, sqlx::Error> {
        let attempt = Statement::new(include_str!("../../sql/mysql/advisory/lock.sql")).bind(&*lock.text).bind(0);
        Ok(attempt.fetch_one::<Self>(connection).await?.optional_int(0)? == Some(1))
    }

    async fn wait(connection: &mut MySqlConnection, lock: &Lock) -> Result<(), sqlx::Error> {
        const YEAR_S: i64 = 365 * 24 * 3600;
        let wait = Statement::new(include_str!("../../sql/mysql/advisory/lock.sql")).bind(&*lock.text).bind(YEAR_S);
        match wait.fetch_one::<Self>(connection).await?.optional_int(0)? {
            Some(1) => Ok(()),
            _ => Err(sqlx::Error::Protocol("the wait for a user lock was ended".into())),
        }
    }

    async fn stands(connection: &mut MySqlConnection, lock: &Lock, session: i64) -> Result<bool, sqlx::Error> {
        let stands = Statement::new(include_str!("../../sql/mysql/advisory/stands.sql"));
        let stands = stands.bind(&*lock.text).bind(session);
        Ok(stands.fetch_one::<Self>(connection).await?.int(0)? == 1)
    }

    async fn unlock(connection: &mut MySqlConnection, lock: &Lock) -> Result<bool, sqlx::Error> {
        let unlock = Statement::new(include_str!("../../sql/mysql/advisory/unlock.sql")).bind(&*lock.text);
        Ok(unlock.fetch_one::<Self>(connection).await?.optional_int(0)? == Some(1))
    }

    /// The server tells the number of the session, and nothing else of it.
    async fn holder(connection: &mut MySqlConnection, lock: &Lock) -> Result<Holder, sqlx::Error> {
        let holder = Statement::new(include_str!("../../sql/mysql/advisory/holder.sql")).bind(&*lock.text);
        let session = holder.fetch_one::<Self>(connection).await?.optional_int(0)?;
        Ok(session.map_or_else(nobody, |session| {
            Holder::new(OwnerHash::of(&session.to_be_bytes()), std::time::Duration::ZERO, lock.ttl)
        }))
    }

    /// Its number is the server's own, so it may stand in the text.
    async fn cancel(pool: &Pool<Self>, session: i64) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(format!("KILL {session}"))).execute(&mut *pool.acquire().await?).await.map(drop)
    }
}

/// It became free between the attempt and the look.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn nobody() -> Holder {
    Holder::new(OwnerHash::of(&[]), std::time::Duration::ZERO, std::time::Duration::ZERO)
}

#[cfg(feature = "postgres")]
fn duration(milliseconds: i64) -> std::time::Duration {
    std::time::Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}
