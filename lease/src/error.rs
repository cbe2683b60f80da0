//! Why an operation on a lease or a fence did not happen.

use std::error::Error as StdError;
use std::path::Path;
use std::time::Duration;

use crate::fence::{Blocker, Refusal};
use crate::lock_name::LockName;
use crate::once::Done;
use crate::state::LossReason;
use crate::store::{Holder, StoreError};
use crate::token::FencingToken;

/// Why an operation on a lease or a fence did not happen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is no lock name.
    #[error("{} is not a lock name: {fault}; write kind:name[:id][:period]", quoted(given))]
    LockName {
        /// What was given.
        given: Box<str>,
        /// The rule that it breaks.
        fault: &'static str,
    },
    /// The text is no name of a resource.
    #[error("{} is not a resource's name: {fault}", quoted(given))]
    Resource {
        /// What was given.
        given: Box<str>,
        /// The rule that it breaks.
        fault: &'static str,
    },
    /// The hold is outside its limits.
    #[error("not a hold: {fault}")]
    Hold {
        /// The limit.
        fault: &'static str,
    },
    /// The nodes are none that a majority could be taken of.
    #[error("not nodes of a Redlock: {fault}")]
    Nodes {
        /// What is wrong with them.
        fault: &'static str,
    },
    /// The approval of a forced release is incomplete.
    #[error("not an approval: {fault}")]
    Approval {
        /// What is missing or too much.
        fault: &'static str,
    },
    /// The operating system gave no random numbers for the owner nonce.
    #[error("no random numbers for the owner nonce")]
    Randomness {
        /// What it said.
        #[source]
        source: getrandom::Error,
    },
    /// Somebody else holds the lock, and still did when the wait was over.
    #[error("{name} is held: {holder}")]
    Held {
        /// The lock.
        name: LockName,
        /// Who holds it, as the store last said.
        holder: Holder,
    },
    /// The store did not answer until the wait was over. What it may have granted was given back as far as it could be; at
    /// worst the lock is free after its TTL.
    #[error("the lock store gave no answer for {name} in {attempts} attempts; whether it was granted is not known")]
    Unanswered {
        /// The lock.
        name: LockName,
        /// How often it was asked.
        attempts: u32,
        /// What the last attempt met; `None` for a time-out.
        #[source]
        source: Option<StoreError>,
    },
    /// The store refused in a way that a further attempt would meet again.
    #[error("the lock store cannot serve {name}")]
    Store {
        /// The lock.
        name: LockName,
        /// What it said.
        #[source]
        source: StoreError,
    },
    /// The store cannot issue a token above the generation that is sealed at the resource: it was restored from an old copy,
    /// and must be moved ahead before this lock can protect anything.
    #[error("the store's next token {token} for {name} is not above the floor {floor}; raise the store's counter")]
    TokenBelowFloor {
        /// The lock.
        name: LockName,
        /// What the store would issue.
        token: FencingToken,
        /// What is sealed.
        floor: FencingToken,
    },
    /// A renewal is unanswered, and no permit is given until one is confirmed.
    #[error("{name} is unconfirmed: a renewal was not answered; ask again, or allow permits_while_unconfirmed")]
    Unconfirmed {
        /// The lock.
        name: LockName,
    },
    /// The lease is over.
    #[error("{name} is lost: {reason}")]
    Lost {
        /// The lock.
        name: LockName,
        /// Why.
        reason: LossReason,
    },
    /// The resource refused the permit. The transaction that was checked cannot commit; roll it back.
    #[error("{resource} refuses generation {generation}: {refusal}; roll the transaction back")]
    Refused {
        /// The resource.
        resource: Box<str>,
        /// The generation that was brought.
        generation: FencingToken,
        /// Why.
        refusal: Refusal,
    },
    /// A permit was to be checked, or a lock to be taken, inside of a savepoint. Its rollback would take the lock away, and a refusal too,
    /// and the transaction around it would commit unprotected. Do it in the transaction itself.
    #[error("{resource} cannot be protected inside of a savepoint; do it in the transaction around that")]
    Savepoint {
        /// The resource, or the lock.
        resource: Box<str>,
    },
    /// The seal waited to its limit for transactions that hold the guard row. The resource is *not* sealed for this
    /// generation, but older ones can begin nothing new; seal again.
    #[error("{resource} could not be sealed within {waited:.1?}: {} transactions stand in the way", blockers.len())]
    SealTimeout {
        /// The resource.
        resource: Box<str>,
        /// How long it waited.
        waited: Duration,
        /// Whom the last attempt waited for, as far as the engine tells.
        blockers: Vec<Blocker>,
    },
    /// The database failed in a seal, a check, or another step that commits nothing of the caller's.
    #[error("the database failed to {operation}{}", advice(source))]
    Database {
        /// What was being done.
        operation: &'static str,
        /// Whether doing it again can help.
        retryable: bool,
        /// What it said.
        #[source]
        source: sqlx::Error,
    },
    /// The database failed in a statement that is a transaction of its own, unless the caller has begun one: the write of a
    /// [`FencedTable`](crate::FencedTable)'s row, its trigger, the deletion of old marks. Without one, whether it took effect is not known if
    /// the connection was lost.
    #[error("the database failed to {operation}{}", advice(source))]
    Write {
        /// What was being done.
        operation: &'static str,
        /// Whether doing it again can help.
        retryable: bool,
        /// What it said.
        #[source]
        source: sqlx::Error,
    },
    /// The database failed to commit a [protected transaction](crate::Protected). Whether it was committed is not known if the
    /// connection was lost.
    #[error("the database failed to commit a protected transaction")]
    Commit {
        /// What it said.
        #[source]
        source: sqlx::Error,
    },
    /// The names or the statement cannot be used for a [`FencedTable`](crate::FencedTable).
    #[error("not usable for a fenced table: {fault}")]
    Table {
        /// The rule that it breaks.
        fault: &'static str,
    },
    /// The file system failed in a seal, a draft or a publication of a [`FencedFile`](crate::FencedFile).
    #[error("could not {operation} {}", path.display())]
    File {
        /// What was being done.
        operation: &'static str,
        /// The protected file.
        path: Box<Path>,
        /// Whether doing it again can help.
        retryable: bool,
        /// What it said.
        #[source]
        source: std::io::Error,
    },
    /// The object store failed in a seal, a publication or a read of a fenced object. After a publication, whether it took
    /// effect is not known: publish again.
    #[error("the object store failed to {operation}")]
    ObjectStore {
        /// What was being done.
        operation: &'static str,
        /// Whether doing it again can help.
        retryable: bool,
        /// What it said.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// What stands where the sealed generation should be is no record of one: somebody else writes there, or it was damaged.
    /// Nothing is sealed or written over it.
    #[error(
        "the record of the generation sealed at {resource} cannot be read; restore it, or remove it if no holder is left"
    )]
    Record {
        /// The resource.
        resource: Box<str>,
    },
    /// The period is done already. [`once`](crate::Leases::once) answers it as [`Once::Done`](crate::Once::Done).
    #[error("{name} is {done}")]
    PeriodDone {
        /// The lock of the period.
        name: LockName,
        /// By whom, and when.
        done: Done,
    },
    /// The work of a period answered with the [`Completed`](crate::Completed) of another turn, which says nothing of this one. Whether this
    /// period is done, its mark tells: call [`once`](crate::Leases::once) again.
    #[error("the work under {name} answered with what another turn has completed; whether it is done is not known")]
    OtherTurn {
        /// The lock of the period.
        name: LockName,
    },
    /// The work of a [`run`](crate::Lease::run) failed.
    #[error("the work under the lease failed")]
    Work {
        /// Whether it is certain what it has done: what [`WorkError::is_known`](crate::WorkError::is_known) said. Work under a lease
        /// outside of this one goes by it.
        known: bool,
        /// What it said.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The work of a [`run`](crate::Lease::run) was cancelled before it ended.
    #[error("the work under {name} was cancelled before it ended")]
    Cancelled {
        /// The lock.
        name: LockName,
    },
}

impl Error {
    /// Whether it is known after this what the work that it ends has done.
    pub(crate) const fn outcome(&self) -> Outcome {
        match self {
            // Refused before anything was done, or a seal or a check, which write nothing of the work's: not even their lost
            // commit does.
            Self::LockName { .. }
            | Self::Resource { .. }
            | Self::Hold { .. }
            | Self::Nodes { .. }
            | Self::Approval { .. }
            | Self::Table { .. }
            | Self::Randomness { .. }
            | Self::Held { .. }
            | Self::TokenBelowFloor { .. }
            | Self::Unconfirmed { .. }
            | Self::Refused { .. }
            | Self::Savepoint { .. }
            | Self::SealTimeout { .. }
            | Self::Database { .. }
            | Self::PeriodDone { .. }
            // The work under a lease inside of this one.
            | Self::Work { known: true, .. } => Outcome::Known,
            // A commit, or what may be one.
            Self::Write { .. } | Self::Commit { .. } => Outcome::AsItsSourceSays,
            // Of these the source does not tell: a rename whose folder was not synced, a put that was not answered, and work that
            // was dropped wherever it was.
            Self::Work { known: false, .. }
            | Self::File { .. }
            | Self::ObjectStore { .. }
            | Self::Record { .. }
            | Self::Lost { .. }
            | Self::Cancelled { .. }
            | Self::OtherTurn { .. }
            | Self::Unanswered { .. }
            | Self::Store { .. } => Outcome::Unknown,
        }
    }

    /// Whether the same call can succeed later (of [`Lost`](Self::Lost) and [`Cancelled`](Self::Cancelled): with a new
    /// lease). What the work itself said is for its author to judge.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Held { .. }
            | Self::Unanswered { .. }
            | Self::Unconfirmed { .. }
            | Self::Lost { .. }
            | Self::SealTimeout { .. }
            | Self::Cancelled { .. } => true,
            Self::Store { source, .. } => source.is_retryable(),
            Self::Database { retryable, .. }
            | Self::Write { retryable, .. }
            | Self::File { retryable, .. }
            | Self::ObjectStore { retryable, .. } => *retryable,
            Self::LockName { .. }
            | Self::Resource { .. }
            | Self::Hold { .. }
            | Self::Nodes { .. }
            | Self::Approval { .. }
            | Self::Randomness { .. }
            | Self::TokenBelowFloor { .. }
            | Self::Refused { .. }
            | Self::Savepoint { .. }
            | Self::Table { .. }
            | Self::Record { .. }
            | Self::Commit { .. }
            | Self::PeriodDone { .. }
            | Self::OtherTurn { .. }
            | Self::Work { .. } => false,
        }
    }
}

/// The longest that is shown of what was given, in characters: longer than any that is right.
const SHOWN: usize = 240;

fn quoted(given: &str) -> String {
    if given.chars().count() <= SHOWN {
        return format!("{given:?}");
    }
    let shown: String = given.chars().take(SHOWN).collect();
    format!("{shown:?}…")
}

/// What to do about it, where the engine's code says it.
pub(crate) fn advice(source: &sqlx::Error) -> &'static str {
    // No such table on PostgreSQL, on MariaDB, and, among other mistakes in a statement, on SQLite.
    const NO_TABLE: [&str; 3] = ["42P01", "42S02", "1"];
    // No such user or a wrong password: PostgreSQL's three, and MariaDB's.
    const NOT_LET_IN: [&str; 3] = ["28P01", "28000", "42501"];
    let code = source.as_database_error().and_then(sqlx::error::DatabaseError::code);
    match code.as_deref() {
        Some(code) if NO_TABLE.contains(&code) => "; have the crate's MIGRATIONS run?",
        Some(code) if NOT_LET_IN.contains(&code) => "; is the user known there, and allowed to?",
        Some("3D000") => "; does the URL name a database that is there?",
        // On MariaDB, of much else too: a missing right, a mistake in a statement.
        Some("42000") => "; is the database that the URL names there, and the user allowed to use it?",
        _ if matches!(source, sqlx::Error::PoolTimedOut) => {
            "; no connection came in time: is it there, and the pool large enough?"
        }
        _ => "",
    }
}

/// What an error tells of the work that it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Known,
    Unknown,
    AsItsSourceSays,
}
