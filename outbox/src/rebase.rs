//! A cursor set anew, after the database was restored or moved.

use leastlock_core::{Statement, begin, commit};
use sqlx::Pool;

use crate::error::Error;
use crate::sql::OutboxSql;

/// An engine whose cursor can be set anew.
pub trait RebaseSql: OutboxSql {
    /// What has to be locked, and how.
    const REBASE_LOCKS: &'static [&'static str];
    /// One row, where ids come from a sequence: its name, the last that it gave, the highest that was seen.
    const REBASE_SEQUENCE: Option<&'static str>;
    /// One row a shard: whether its cursor is of another database.
    const REBASE_NEEDED: &'static str;
    /// Has the log take rows as they are, where it has some that it would refuse; what [`REBASE_REST`](Self::REBASE_REST) undoes.
    const REBASE_UNCHECKED: Option<&'static str>;
    /// Makes what is not certainly published new, if that takes a statement of its own; changes one row an event.
    const REBASE_UNPUBLISHED: Option<&'static str>;
    /// Sets everything else.
    const REBASE_REST: &'static [&'static str];
}

#[cfg(feature = "postgres")]
impl RebaseSql for sqlx::Postgres {
    const REBASE_LOCKS: &'static [&'static str] = &[
        include_str!("../sql/postgres/lock_wait.sql"),
        include_str!("../sql/postgres/rebase_lock.sql"),
        include_str!("../sql/postgres/unchecked_shards.sql"),
    ];
    const REBASE_SEQUENCE: Option<&'static str> = Some(include_str!("../sql/postgres/rebase_sequence.sql"));
    const REBASE_NEEDED: &'static str = include_str!("../sql/postgres/rebase_needed.sql");
    const REBASE_UNCHECKED: Option<&'static str> = Some(include_str!("../sql/postgres/rebase_unchecked.sql"));
    const REBASE_UNPUBLISHED: Option<&'static str> = Some(include_str!("../sql/postgres/rebase_unpublished.sql"));
    const REBASE_REST: &'static [&'static str] = &[
        include_str!("../sql/postgres/rebase_published.sql"),
        include_str!("../sql/postgres/rebase_shards.sql"),
        include_str!("../sql/postgres/rebase_marks.sql"),
        include_str!("../sql/postgres/checked_shards.sql"),
        include_str!("../sql/postgres/rebase_checked.sql"),
    ];
}

#[cfg(feature = "sqlite")]
impl RebaseSql for sqlx::Sqlite {
    const REBASE_LOCKS: &'static [&'static str] = &[];
    const REBASE_SEQUENCE: Option<&'static str> = None;
    const REBASE_NEEDED: &'static str = include_str!("../sql/sqlite/rebase_needed.sql");
    /// A trigger looks at what is inserted only.
    const REBASE_UNCHECKED: Option<&'static str> = None;
    const REBASE_UNPUBLISHED: Option<&'static str> = None;
    const REBASE_REST: &'static [&'static str] =
        &[include_str!("../sql/sqlite/rebase_shards.sql"), include_str!("../sql/sqlite/rebase_marks.sql")];
}

/// What [`rebase`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Rebased {
    /// The cursors are of this database; nothing was changed.
    NotNeeded,
    /// They were set anew.
    Done {
        /// Events that are published from here on: those that had not been, and those of which that is not certain. `None` where
        /// it is all that is in the log.
        to_publish: Option<u64>,
    },
}

/// Sets the relays' cursors anew after the database was restored or moved, so that they go on: no event of the log is lost. For an
/// operator, after a relay has stopped with [`Error::Moved`],
/// [`Error::CursorAhead`] or [`Error::EventsAhead`].
///
/// **PostgreSQL.** Call it after a dump was restored into another cluster, after `pg_upgrade`, or when transaction ids were set
/// back. Where nothing of that happened it changes nothing. What had been published when the dump was made is not published again, but
/// for what was noted in the last third of the relays' lease before it. Appends wait while it works; it waits up to
/// 30 s for transactions that have appended. It rewrites the rows to be published, and of the others those whose transaction id lies
/// ahead of this cluster's. Where the number of shards was raised once, or the log has rows that its checks refuse because they are older
/// than these, it needs the right to alter the table.
///
/// What the *other* database published after the dump was made is published again, if it is in this one; and what was appended there after
/// that is not here at all. End the relays of the other database first. New events must get higher ids than old ones: `pg_dump` brings
/// the log's sequence along, and where something else copied the rows, such as logical replication, it has to be set before anything is
/// appended. Where it was not this fails, since it cannot tell new events from published ones.
///
/// **`SQLite`.** Needed when the log was replaced by an older one while the cursor stayed. Everything that is in the log is
/// published, again where it had been. A whole file restored from a backup needs nothing: its cursor is as old as its log.
///
/// A physical backup, a point-in-time recovery and a standby that is promoted need nothing either: their cursor is as old as their log,
/// and a relay that runs meanwhile takes its positions from the table anew once the connection that it reads on is lost. What was
/// published and is not there any more cannot be told from it.
///
/// # Errors
/// [`Error::SequenceBehind`] where ids start again below those that were given, with what to do. [`Error::Database`]; when a transaction that has appended stays open for 30 s, as the class of a lock time-out.
///
/// # Cancel safety
/// One transaction: it is done whole or not at all.
pub async fn rebase<DB: RebaseSql>(pool: &Pool<DB>) -> Result<Rebased, Error> {
    let database = Error::database::<DB>;
    let mut tx = begin(pool).await.map_err(database)?;
    for lock in DB::REBASE_LOCKS {
        Statement::new(*lock).execute::<DB>(&mut tx).await.map_err(database)?;
    }
    let shards = Statement::new(DB::REBASE_NEEDED).fetch_all::<DB>(&mut tx).await.map_err(database)?;
    let mut needed = false;
    for shard in &shards {
        needed |= shard.optional_int(0).map_err(database)? == Some(1);
    }
    if !needed {
        return Ok(Rebased::NotNeeded);
    }
    if let Some(sequence) = DB::REBASE_SEQUENCE {
        let row = Statement::new(sequence).fetch_one::<DB>(&mut tx).await.map_err(database)?;
        let figure = |index| row.int(index).map_err(database);
        let (sequence, last, seen) = (row.text(0).map_err(database)?, figure(1)?, figure(2)?);
        if last < seen {
            return Err(Error::SequenceBehind { sequence, last, seen });
        }
    }
    if let Some(unchecked) = DB::REBASE_UNCHECKED {
        Statement::new(unchecked).execute::<DB>(&mut tx).await.map_err(database)?;
    }
    let to_publish = match DB::REBASE_UNPUBLISHED {
        Some(unpublished) => Some(Statement::new(unpublished).execute::<DB>(&mut tx).await.map_err(database)?),
        None => None,
    };
    for rest in DB::REBASE_REST {
        Statement::new(*rest).execute::<DB>(&mut tx).await.map_err(database)?;
    }
    commit(tx).await.map_err(database)?;
    tracing::warn!(?to_publish, "the cursors of the outbox were set anew");
    Ok(Rebased::Done { to_publish })
}
