//! The statements of parked events, per engine. Parameters stand in the order of the text.

use std::future::Future;

use leastlock_core::{Dialect, Row};

/// The statements that differ between the engines in their text only, from the folder of an engine.
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
macro_rules! statements {
    ($engine:literal) => {
        const BLOCKED: &'static str = include_str!(concat!("../../../sql/", $engine, "/park_blocked.sql"));
        const HEAD: &'static str = include_str!(concat!("../../../sql/", $engine, "/park_head.sql"));
        const FENCE: &'static str = include_str!(concat!("../../../sql/", $engine, "/park_fence.sql"));
        const REFUSED: &'static str = include_str!(concat!("../../../sql/", $engine, "/park_refused.sql"));
        const ALONE: &'static str = include_str!(concat!("../../../sql/", $engine, "/park_alone.sql"));
        const BLOCK: &'static str = include_str!(concat!("../../../sql/", $engine, "/park_block.sql"));
        const OPEN: &'static str = include_str!(concat!("../../../sql/", $engine, "/park_open.sql"));
        const FIND: &'static str = include_str!(concat!("../../../sql/", $engine, "/parked_find.sql"));
        const LOCK: &'static str = include_str!(concat!("../../../sql/", $engine, "/parked_lock.sql"));
        const FIRST: &'static str = include_str!(concat!("../../../sql/", $engine, "/parked_first.sql"));
        const ASK: &'static str = include_str!(concat!("../../../sql/", $engine, "/parked_ask.sql"));
        const TOPIC: &'static str = include_str!(concat!("../../../sql/", $engine, "/parked_topic.sql"));
        const ASK_TOPIC: &'static str = include_str!(concat!("../../../sql/", $engine, "/parked_ask_topic.sql"));
        const AUDIT: &'static str = include_str!(concat!("../../../sql/", $engine, "/parked_audit.sql"));
        const COUNT: &'static str = include_str!(concat!("../../../sql/", $engine, "/parked_count.sql"));
        const LIST: &'static str = include_str!(concat!("../../../sql/", $engine, "/parked_list.sql"));
        const ONE: &'static str = include_str!(concat!("../../../sql/", $engine, "/parked_read.sql"));
        const HISTORY: &'static str = include_str!(concat!("../../../sql/", $engine, "/parked_history.sql"));
    };
}

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

/// An engine that keeps parked events.
///
/// # Contract
/// Whoever moves events of a queue holds the queue's row ([`LOCK`](Self::LOCK)), and who holds several took them in the order of
/// their names. A relay holds its shard's row before that ([`FENCE`](Self::FENCE), or the note's own lock).
pub trait ParkedSql: Dialect {
    /// Has the server end a connection of which it hears nothing for so many milliseconds, where a transaction cannot say so. For a
    /// connection that is closed afterwards.
    const BOUND: Option<&'static str>;
    /// Has the server end the open transaction once it hears nothing of it for so many milliseconds, if it does not so earlier.
    const BOUND_TRANSACTION: Option<&'static str>;
    /// The queues of a shard's blocked keys: shard, limit.
    const BLOCKED: &'static str;
    /// A queue's first events in order: queue, limit, bytes in all; one comes whatever it takes. Answers the columns of an event.
    const HEAD: &'static str;
    /// Holds a shard's row if it is still this relay's: shard, epoch.
    const FENCE: &'static str;
    /// An event was refused again: reason, queue from now on, shard, id.
    const REFUSED: &'static str;
    /// Makes the queue that an event is now alone in: shard, id.
    const ALONE: &'static str;
    /// A queue whose head was refused again stays parked: queue.
    const BLOCK: &'static str;
    /// Removes a queue if it is empty: queue.
    const OPEN: &'static str;
    /// Where an event is parked: event id. Answers shard, id, queue.
    const FIND: &'static str;
    /// Holds a queue's row: queue. Answers state, topic, key.
    const LOCK: &'static str;
    /// A queue's first event: queue. Answers id, event id.
    const FIRST: &'static str;
    /// Asks the relay for a queue: state, queue.
    const ASK: &'static str;
    /// Up to which queue the next step of a topic goes: topic, queue to be behind, limit.
    const TOPIC: &'static str;
    /// Asks for a retry of a topic's queues: topic, queue to be behind, last queue.
    const ASK_TOPIC: &'static str;
    /// Writes who asked: actor, action, reason, topic, key, event id, number of queues.
    const AUDIT: &'static str;
    /// Counts: topic twice, key twice, whether refused ones only. Answers events, refused ones, blocked keys, age of the oldest.
    const COUNT: &'static str;
    /// Lists: as `COUNT`, then the last shard and id seen, and limit.
    const LIST: &'static str;
    /// One event, whole: event id. Answers its shard and the columns of an event.
    const ONE: &'static str;
    /// The audit from the newest on: id to be below, limit.
    const HISTORY: &'static str;

    /// The queues of these shards that operators have asked for, by name from behind `after` on: rows of shard and queue.
    fn asked(
        connection: &mut Self::Connection,
        shards: &[i64],
        after: &str,
        limit: i64,
    ) -> impl Future<Output = Result<Vec<Row<Self>>, sqlx::Error>> + Send;

    /// Which of these queues are blocked keys.
    fn blocked_among(
        connection: &mut Self::Connection,
        queues: &[String],
    ) -> impl Future<Output = Result<Vec<String>, sqlx::Error>> + Send;

    /// Removes parked events of a shard; answers how many were there.
    fn forget(
        connection: &mut Self::Connection,
        shard: i64,
        ids: &[i64],
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
}
