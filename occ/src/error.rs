//! What can go wrong, and whether running the unit of work again can help.

use leastlock_core::{Dialect, ErrorClass, Row, classify};

use crate::bound::Bound;
use crate::version::Version;

/// Why a guarded or versioned statement has no outcome.
///
/// A refused statement and a conflict of versions are not here: they are outcomes ([`Guarded`](crate::Guarded),
/// [`Update`](crate::Update), [`Delete`](crate::Delete)).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database refused a statement, or could not be reached.
    #[error("the database refused the statement ({class:?})")]
    Database {
        /// What the error means, the same for every engine.
        class: ErrorClass,
        /// What the database said.
        #[source]
        source: sqlx::Error,
    },
    /// A statement changed another number of rows than the caller allows. Where it ran in a transaction, that
    /// transaction can no longer commit; see [`BoundedQuery::execute`](crate::BoundedQuery::execute).
    #[error("the statement changed {actual} rows where {expected} was allowed; roll the transaction back")]
    RowsOutOfBounds {
        /// What was allowed.
        expected: Bound,
        /// How many rows the engine counted.
        actual: u64,
    },
    /// An `INSERT` without `ON CONFLICT` met its key in a transaction, which PostgreSQL has aborted for it. Nothing was written.
    #[error(
        "the key is there already, and PostgreSQL has aborted the transaction; write INSERT … ON CONFLICT DO NOTHING"
    )]
    DuplicateAborted {
        /// What the database said.
        #[source]
        source: sqlx::Error,
    },
    /// The reply to a `COMMIT` was lost, so it may or may not have taken effect. Read the rows, or what identifies the
    /// operation, before it is run again.
    #[error("the reply to the commit was lost, so its outcome is unknown; read before running it again")]
    CommitUnknown {
        /// What was seen instead of the reply.
        #[source]
        source: sqlx::Error,
    },
    /// The transaction had ended before its `COMMIT`, because of an error in it that was ignored. Nothing was committed.
    #[error("the transaction had ended before its commit: an error in it was ignored; return it instead")]
    TransactionEnded {
        /// How the database said so.
        #[source]
        source: sqlx::Error,
    },
    /// A row's version is NULL, so that nothing can be checked against it.
    #[error(
        "the version of a row of {place} is NULL, so no write to it can be checked; \
         give every row a version and declare the column NOT NULL"
    )]
    NullVersion {
        /// The table, or which query answered the row.
        place: &'static str,
    },
    /// A version cannot be read as a 64-bit integer, because its column has another type: on PostgreSQL that is `INTEGER`, on MySQL
    /// `BIGINT UNSIGNED` or text. A write may already have been refused; nothing was written.
    #[error("{column} of {place} cannot be read as a 64-bit integer; declare the version column BIGINT NOT NULL")]
    VersionType {
        /// The table, or which query answered the row.
        place: &'static str,
        /// The column.
        column: &'static str,
        /// What sqlx said.
        #[source]
        source: sqlx::Error,
    },
    /// The row has been written `i64::MAX` times. Versions never wrap.
    #[error("version {version} has no successor; renumber the row before it is written again")]
    VersionOverflow {
        /// The last version.
        version: Version,
    },
    /// A change assigned to a field of the key. Nothing was written.
    #[error("an update of {table} may not change the key; delete the row and insert the other one")]
    KeyChanged {
        /// The table.
        table: &'static str,
    },
    /// A bulk update was given more rows than it locks by one statement. Nothing was written. Sort the rows by their key and
    /// split them, or two callers that split differently may deadlock.
    #[error("{given} rows are more than the {limit} that a bulk update of {table} locks at once; sort and split them")]
    TooManyRows {
        /// The table.
        table: &'static str,
        /// How many rows were given.
        given: usize,
        /// How many are allowed.
        limit: usize,
    },
    /// A bulk update was given one row twice, so that it is not clear which change counts. Nothing was written.
    #[error("a bulk update of {table} was given the same row twice; make the two changes one")]
    SameRowTwice {
        /// The table.
        table: &'static str,
    },
    /// The database answered a row whose key is, in Rust, none of those that were asked for: it compares keys in another way.
    /// Nothing was written. Collations do that (`VARBINARY` does not, on MySQL), and so do times finer than the column.
    #[error("a key of {table} is equal to one asked for in the database only; give the column a binary collation")]
    KeyComparesOtherwise {
        /// The table.
        table: &'static str,
    },
    /// A state machine has no such edge. No SQL was run.
    #[error("{machine} has no transition from {from} to {to}")]
    IllegalTransition {
        /// The machine.
        machine: &'static str,
        /// The state that it was to leave.
        from: &'static str,
        /// The state that does not follow it.
        to: &'static str,
    },
    /// What stands in the column of the state is none of the machine's: NULL, or written by somebody who knows others.
    /// Nothing was written.
    #[error("a row of {table} is in a state that {machine} does not know")]
    UnknownState {
        /// The machine.
        machine: &'static str,
        /// The table.
        table: &'static str,
    },
    /// The row has the expected version or state, and still the write changed nothing: a trigger, a rule or a row security policy
    /// suppressed it, or the row was deleted and inserted anew between the two statements. Nothing was written.
    #[error(
        "the row of {table} has the expected version, but the write did not reach it; look for a trigger or policy"
    )]
    Suppressed {
        /// The table.
        table: &'static str,
    },
}

impl Error {
    /// Whether running the whole unit of work again, in a fresh transaction, can help.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Database { class, .. } => class.is_retryable(),
            Self::RowsOutOfBounds { .. }
            | Self::DuplicateAborted { .. }
            | Self::CommitUnknown { .. }
            | Self::TransactionEnded { .. }
            | Self::NullVersion { .. }
            | Self::VersionType { .. }
            | Self::VersionOverflow { .. }
            | Self::KeyChanged { .. }
            | Self::IllegalTransition { .. }
            | Self::UnknownState { .. }
            | Self::TooManyRows { .. }
            | Self::SameRowTwice { .. }
            | Self::KeyComparesOtherwise { .. }
            | Self::Suppressed { .. } => false,
        }
    }

    /// What stands in a version column, in column `index` of a row that was read from `place`.
    pub(crate) fn version_in<DB: Dialect>(
        row: &Row<DB>,
        index: usize,
        (place, column): (&'static str, &'static str),
    ) -> Result<Version, Self> {
        let version = row.optional_int(index).map_err(|source| match source {
            sqlx::Error::ColumnDecode { .. } => Self::VersionType { place, column, source },
            source => Self::database::<DB>(source),
        })?;
        version.map(Version::new).ok_or(Self::NullVersion { place })
    }

    /// The error of a statement on `DB`.
    pub(crate) fn database<DB: Dialect>(source: sqlx::Error) -> Self {
        Self::Database { class: classify::<DB>(&source), source }
    }
}
