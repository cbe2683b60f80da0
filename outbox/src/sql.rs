//! The statements of this crate, per engine.

use std::future::Future;

use crate::error::Error;
use crate::event::Event;
use crate::parked::ParkedSql;
use crate::relay::cursor::{Cursor, Note, Page, ReadFrom};
use crate::sql::found::ReadLimit;
use crate::sql::shards::ShardsSql;
use crate::strict::KeyLockSql;

#[cfg_attr(
    not(any(feature = "postgres", feature = "sqlite", feature = "mysql")),
    allow(dead_code, reason = "without an engine nothing is read")
)]
pub(crate) mod found;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
pub(crate) mod shards;
#[cfg(feature = "sqlite")]
mod sqlite;

/// An engine that keeps an outbox. Implemented wherever [`Dialect`](leastlock_core::Dialect) is.
///
/// # Contract
/// [`read`](Self::read) answers, for each place, the next events that are committed and neither behind it nor among the unnoted
/// ones: every event exactly once as the place moves, the events of a key in the order of their commits, however late a
/// transaction commits.
pub trait OutboxSql: ParkedSql + ShardsSql + KeyLockSql {
    /// Whether events are spread over shards.
    const SHARDED: bool;
    /// Whether a position says what was published (see [`Log::POSITIONS`](crate::relay::Log::POSITIONS)).
    const POSITIONS: bool;
    /// Appends an event: shard, event id, topic, key, value, headers, partition.
    const APPEND: &'static str;
    /// The first shard that events are appended to, and how many these are.
    const SHARDS: &'static str;
    /// Makes a session the one that reads, if the engine needs that: settings, and a lock by the number that it is given, which ends with
    /// the session.
    const READER: Option<&'static str>;
    /// Gives an owner's shards back: owner.
    const RELEASE: &'static str;
    /// The fewest connections that a relay's pool must be able to open.
    const RELAY_CONNECTIONS: u32;

    /// Appends events with their shards, in their order. Where statements travel to a server, all in one.
    fn append_all(
        connection: &mut Self::Connection,
        events: &[(u16, &Event)],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Takes at most `most` of the shards `among` for `owner`: those that are free, or that are its own by name.
    fn claim(
        connection: &mut Self::Connection,
        owner: &str,
        among: &[i64],
        most: i64,
        lease_ms: i64,
    ) -> impl Future<Output = Result<Vec<Cursor>, sqlx::Error>> + Send;

    /// Prolongs the lease of shards held at an epoch; answers the shards for which it did.
    fn renew(
        connection: &mut Self::Connection,
        held: &[(i64, i64)],
        lease_ms: i64,
    ) -> impl Future<Output = Result<Vec<i64>, sqlx::Error>> + Send;

    /// Remembers, for shards held at an epoch, an id that has been drawn, where [`rebase`](crate::rebase()) needs one. Fails rather than
    /// waits for long.
    fn see(
        connection: &mut Self::Connection,
        held: &[(i64, i64)],
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Reads the next page of each shard, within the limit; a page for each place, in the same order.
    fn read(
        connection: &mut Self::Connection,
        from: &[ReadFrom],
        limit: ReadLimit,
    ) -> impl Future<Output = Result<Vec<Page>, Error>> + Send;

    /// Notes what was published, in one transaction; answers the shards that still are this relay's. None, unless the session that
    /// reads and has this number is on the same server. Where it takes several messages, the server ends it once it hears nothing for
    /// `idle_ms`.
    fn note(
        connection: &mut Self::Connection,
        notes: &[Note],
        reader: i64,
        idle_ms: i64,
    ) -> impl Future<Output = Result<Vec<i64>, sqlx::Error>> + Send;
}
