//! The statements about who holds which shard, and what may be deleted, per engine.

use std::future::Future;

use leastlock_core::Dialect;

use crate::error::Error;
use crate::relay::balance::Survey;

/// How an engine shares shards among relays, and how it forgets what was published.
///
/// # Contract
/// - [`survey`](Self::survey) says that the relay `owner` is there for `stay_ms` more, and answers what all relays would see at that
///   moment. It fails where the database is not the one in which the shards were published.
/// - [`give_up`](Self::give_up) frees no shard that is held at another epoch.
/// - [`sweep`](Self::sweep) deletes nothing that has been published for less than `keep_ms`, and nothing unpublished.
pub trait ShardsSql: Dialect {
    /// How far publishing is behind, in one row: ages in ms of the oldest open transaction that has appended and of the oldest event that is
    /// not noted as published, how many such events there are, whether that was counted (1) or estimated (0), the age in ms of the
    /// oldest parked event, how many are parked, the highest id.
    const LAG: &'static str;

    /// Who is there and who holds what.
    fn survey(
        connection: &mut Self::Connection,
        owner: &str,
        stay_ms: i64,
    ) -> impl Future<Output = Result<Survey, Error>> + Send;

    /// Lets shards that waited be held once every retired one has been published; answers how many that were.
    fn open_waiting(connection: &mut Self::Connection) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Frees shards held at an epoch.
    fn give_up(
        connection: &mut Self::Connection,
        held: &[(i64, i64)],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Says that a relay is there no more.
    fn leave(connection: &mut Self::Connection, owner: &str) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Remembers what has been published by now, at most once in `every_ms`, and forgets all that is older than what `keep_ms` needs.
    fn mark_published(
        connection: &mut Self::Connection,
        shards: &[i64],
        every_ms: i64,
        keep_ms: i64,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Deletes at most `limit` events of a shard that were published `keep_ms` ago; answers how many, and from where to go on
    /// ("0" at first), which spares the search through what is deleted and not yet vacuumed.
    fn sweep(
        connection: &mut Self::Connection,
        shard: i64,
        keep_ms: i64,
        from: &str,
        limit: i64,
    ) -> impl Future<Output = Result<(u64, String), sqlx::Error>> + Send;
}
