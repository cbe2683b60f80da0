//! The statements of parked records, per engine.

use leastlock_core::Dialect;

/// The constants, from the folder of an engine.
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
macro_rules! statements {
    ($engine:literal) => {
        const PARK_QUEUES: &'static str = include_str!(concat!("../../sql/", $engine, "/park_queues.sql"));
        const PARK_ASKED: &'static str = include_str!(concat!("../../sql/", $engine, "/park_asked.sql"));
        const PARK_LOCK: &'static str = include_str!(concat!("../../sql/", $engine, "/park_lock.sql"));
        const PARK_QUEUE: &'static str = include_str!(concat!("../../sql/", $engine, "/park_queue.sql"));
        const PARK_RECORD: &'static str = include_str!(concat!("../../sql/", $engine, "/park_record.sql"));
        const PARK_NEXT: &'static str = include_str!(concat!("../../sql/", $engine, "/park_next.sql"));
        const PARK_DONE: &'static str = include_str!(concat!("../../sql/", $engine, "/park_done.sql"));
        const PARK_OPEN: &'static str = include_str!(concat!("../../sql/", $engine, "/park_open.sql"));
        const PARK_AGAIN: &'static str = include_str!(concat!("../../sql/", $engine, "/park_again.sql"));
        const PARK_BLOCK: &'static str = include_str!(concat!("../../sql/", $engine, "/park_block.sql"));
        const PARKED_ASK: &'static str = include_str!(concat!("../../sql/", $engine, "/parked_ask.sql"));
        const PARKED_DISCARD: &'static str = include_str!(concat!("../../sql/", $engine, "/parked_discard.sql"));
        const PARKED_AUDIT: &'static str = include_str!(concat!("../../sql/", $engine, "/parked_audit.sql"));
        const PARKED_HOLD: &'static str = include_str!(concat!("../../sql/", $engine, "/parked_hold.sql"));
        const PARKED_FORGET: &'static str = include_str!(concat!("../../sql/", $engine, "/parked_forget.sql"));
        const PARKED_OPEN: &'static str = include_str!(concat!("../../sql/", $engine, "/parked_open.sql"));
        const PARKED_LIST: &'static str = include_str!(concat!("../../sql/", $engine, "/parked_list.sql"));
        const PARKED_HISTORY: &'static str = include_str!(concat!("../../sql/", $engine, "/parked_history.sql"));
    };
}

/// An engine that keeps parked records. Sealed, as [`Dialect`] is.
///
/// # Contract
/// Unless it says otherwise, a statement takes group, topic and partition as its first parameters; what follows stands beside each
/// constant. Whoever adds or removes records of a queue holds the queue's row ([`PARK_LOCK`](Self::PARK_LOCK)); the owner of a partition
/// holds the guard row before that.
pub trait ParkedSql: Dialect {
    /// limit → queue, whether later records of the key follow, parking topic.
    const PARK_QUEUES: &'static str;
    /// → queue, key, parking topic.
    const PARK_ASKED: &'static str;
    /// queue → state, key, parking topic, whether later records of the key follow; or no row.
    const PARK_LOCK: &'static str;
    /// queue, key, whether later records follow, parking topic, cause, reason.
    const PARK_QUEUE: &'static str;
    /// queue, offset, partition and offset of the copy, attempts.
    const PARK_RECORD: &'static str;
    /// queue, offset to be behind, limit → offset, partition and offset of the copy, attempts, age in ms.
    const PARK_NEXT: &'static str;
    /// queue, offset → one row changed if it was there.
    const PARK_DONE: &'static str;
    /// queue → one row changed if it was empty.
    const PARK_OPEN: &'static str;
    /// Attempts first; then group, topic, partition, queue, offset.
    const PARK_AGAIN: &'static str;
    /// Cause and reason first; then group, topic, partition, queue.
    const PARK_BLOCK: &'static str;
    /// queue.
    const PARKED_ASK: &'static str;
    /// queue → rows changed: the records that are gone.
    const PARKED_DISCARD: &'static str;
    /// Actor, action and reason first; then group, topic, partition, queue, key, offset, number of records.
    const PARKED_AUDIT: &'static str;
    /// → queues, which are held from then on.
    const PARKED_HOLD: &'static str;
    /// offset → rows changed: the records from there on, which are gone.
    const PARKED_FORGET: &'static str;
    /// Empty queues are gone.
    const PARKED_OPEN: &'static str;
    /// Group, topic twice, queue twice, place to be behind (topic, partition, queue), limit → a parked key.
    const PARKED_LIST: &'static str;
    /// Group, id to be below, limit → a row of the audit.
    const PARKED_HISTORY: &'static str;
}

#[cfg(feature = "postgres")]
impl ParkedSql for sqlx::Postgres {
    statements!("postgres");
}

#[cfg(feature = "sqlite")]
impl ParkedSql for sqlx::Sqlite {
    statements!("sqlite");
}

#[cfg(feature = "mysql")]
impl ParkedSql for sqlx::MySql {
    statements!("mysql");
}
