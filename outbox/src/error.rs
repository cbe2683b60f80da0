//! What can go wrong, and whether a retry helps.

use std::time::Duration;

use leastlock_core::{Dialect, ErrorClass, classify};

use crate::event::EventId;
use crate::sink::SendError;

/// Why an outbox operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database refused or could not be reached.
    #[error("the outbox's database failed: {class}")]
    Database {
        /// What the error means.
        class: ErrorClass,
        /// What the driver said.
        #[source]
        source: sqlx::Error,
    },
    /// The database's user may not do it.
    #[error(
        "{said}; who appends needs INSERT on leastlock_outbox and SELECT on leastlock_outbox_shard; relays and operators need SELECT, \
         INSERT and DELETE on leastlock_outbox, and SELECT, INSERT, UPDATE and DELETE on the other tables leastlock_outbox_*; \
         the inbox needs SELECT, INSERT and DELETE on leastlock_inbox"
    )]
    Denied {
        /// What the database said, which names the table.
        said: String,
        /// What the driver said.
        #[source]
        source: sqlx::Error,
    },
    /// The tables are there but have no shard rows.
    #[error("leastlock_outbox_shard is empty; run the crate's MIGRATIONS")]
    NoShards,
    /// The event is larger than the limit.
    #[error("the event takes {bytes} bytes, the limit is {limit}; send a reference to the data instead")]
    EventTooLarge {
        /// Bytes of key, value and headers.
        bytes: usize,
        /// The limit, in bytes.
        limit: usize,
    },
    /// A topic name that no broker takes: empty, over 249 characters, or with characters other than letters, digits, `.`, `_`
    /// and `-` (Kafka's rule).
    #[error("{topic:?} is not a topic name: 1 to 249 letters, digits, '.', '_' and '-'")]
    Topic {
        /// The name.
        topic: String,
    },
    /// A header that the event cannot have.
    #[error("the event's header {name:?} cannot be: {reason}")]
    Header {
        /// Its name.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// In strict mode, more keys in one call than a transaction should lock.
    #[error(
        "strict mode takes a lock for each of {keys} keys, the limit is {limit}; append them in several transactions"
    )]
    TooManyKeys {
        /// Different (topic, key) in the call.
        keys: usize,
        /// The limit.
        limit: usize,
    },
    /// A partition below zero, which no broker has.
    #[error("partition {partition} is below zero; leave it out to let the key decide")]
    Partition {
        /// The partition.
        partition: i32,
    },
    /// The outbox was given more shards since it was opened; the event was refused, and the transaction can only be rolled back. The
    /// next append knows the new number.
    #[error("the outbox was given more shards since it was opened; run the transaction again")]
    ShardsRaised,
    /// The number of shards cannot be raised as asked.
    #[error("there cannot be {shards} shards: {reason}")]
    CannotRaise {
        /// How many were asked for.
        shards: u16,
        /// Why not.
        reason: &'static str,
    },
    /// The database did not answer in time. Whether the statement took effect is unknown.
    #[error("the outbox's database gave no answer to {request} within {limit:?}")]
    NoAnswer {
        /// What was asked.
        request: &'static str,
        /// How long it was waited for.
        limit: Duration,
    },
    /// A row of the table `leastlock_outbox` cannot be read; most likely plain SQL wrote it. The tables refuse such a row, and a relay parks
    /// one whose headers they could not see through; past one with an id or a partition that cannot be read, which is from before
    /// the tables refused it (on SQLite; on MariaDB and MySQL migration 0005 refuses to run while there is one), no relay goes. Mend or
    /// delete it, then run a relay again.
    #[error(
        "event {id} of shard {shard} cannot be read: {reason}; mend or delete that row of leastlock_outbox, then start the \
         relay again"
    )]
    Malformed {
        /// The shard.
        shard: i64,
        /// The row's id.
        id: i64,
        /// What is wrong with it.
        reason: String,
    },
    /// The cursor is ahead of the database: it was restored from an older state, or moved to another cluster.
    #[error(
        "shard {shard} was read up to {done}, but the database is only at {current}: it was restored or moved; nothing is \
         published until `rebase` has set the cursor anew"
    )]
    CursorAhead {
        /// The shard.
        shard: i64,
        /// The snapshot that the cursor stands at; on SQLite the id.
        done: String,
        /// The database's present snapshot; on SQLite the highest id that the file has given.
        current: String,
    },
    /// The shards were published in another cluster, whose transaction ids say nothing here: the database was restored into a
    /// new cluster, or upgraded.
    #[error(
        "shard {shard} was last published in the database cluster {published_in}, and this is {here}: it was restored, moved \
         or upgraded; nothing is published until `rebase` has set the cursor anew"
    )]
    Moved {
        /// The shard.
        shard: i64,
        /// The system identifier of the cluster in which it was published.
        published_in: u64,
        /// The system identifier of this cluster.
        here: u64,
    },
    /// The log was moved without its sequence: new events get ids that older ones had, and look as if they were published.
    #[error(
        "the last id that the sequence {sequence} gave is {last}, but {seen} was given before the database was moved; run SELECT \
         setval('{sequence}', {seen}), give each row appended since the move, whose ids are {last} or lower, a new id by \
         nextval('{sequence}'), one by one in the order of their ids, then run `rebase` again"
    )]
    SequenceBehind {
        /// The sequence.
        sequence: String,
        /// The last id that it gave; 0 if none.
        last: i64,
        /// The highest id that is known to have been given.
        seen: i64,
    },
    /// The log has events of a transaction that the database has not begun yet: it was restored into another cluster before any relay had
    /// run, or only the log was.
    #[error(
        "shard {shard} has an event of transaction {xid}, but the database is only at {current}: it was restored or moved; nothing \
         is published until `rebase` has set the cursor anew"
    )]
    EventsAhead {
        /// The shard.
        shard: i64,
        /// The transaction.
        xid: String,
        /// The database's present snapshot.
        current: String,
    },
    /// A request of an operator does not say by whom it comes or why, or says it at too great a length.
    #[error("say who asks (1 to 255 bytes) and why (1 to 4,000 bytes); both go to the audit")]
    Unaccounted,
    /// The sink refused an event for good, and its topic's policy is [`OnRefusal::Halt`](crate::OnRefusal::Halt). The relay stops before it; everything before it is noted as published.
    #[error("event {event_id} of topic {topic} was refused for good; nothing behind it in its shard was published")]
    Refused {
        /// The event.
        event_id: EventId,
        /// Its topic.
        topic: String,
        /// What the sink said.
        #[source]
        source: SendError,
    },
    /// The write-ahead log, or the slot that it is read through.
    #[cfg(feature = "wal")]
    #[error(transparent)]
    Wal(#[from] crate::wal::WalError),
}

impl Error {
    /// Whether trying again, in a fresh transaction where there was one, can help.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Database { class, .. } => class.is_retryable(),
            Self::NoAnswer { .. } | Self::ShardsRaised => true,
            #[cfg(feature = "wal")]
            Self::Wal(error) => error.is_retryable(),
            _ => false,
        }
    }

    pub(crate) fn database<DB: Dialect>(source: sqlx::Error) -> Self {
        if let Some(said) = source.as_database_error().filter(|error| is_denied(*error)).map(ToString::to_string) {
            return Self::Denied { said, source };
        }
        Self::Database { class: classify::<DB>(&source), source }
    }
}

/// Whether the user lacks a right: by the SQLSTATE, or where that is the one of a syntax error too, by the number.
fn is_denied(error: &dyn sqlx::error::DatabaseError) -> bool {
    #[cfg(feature = "mysql")]
    if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        // Of a database, a table, a column, a routine.
        return matches!(error.number(), 1044 | 1142 | 1143 | 1370);
    }
    error.code().as_deref() == Some("42501")
}
