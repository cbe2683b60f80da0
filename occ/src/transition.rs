//! A state machine whose state stands in a column: the legal edges declared once, each move one conditional `UPDATE`.

use std::fmt;

use leastlock_core::{Dialect, Row};
use sqlx::query::Query;
use sqlx::{Database, Encode, Transaction, Type};

use crate::bound::Bound;
use crate::error::Error;
use crate::version::Version;

/// The states of a row, and which may follow which.
///
/// ```
/// use leastlock_occ::Transition;
///
/// #[derive(Debug, Clone, Copy, PartialEq, Eq, Transition)]
/// #[transition(table = "orders", key = "id", state = "state")]
/// enum OrderState {
///     #[transition(initial, to(Paid, Cancelled))]
///     Placed,
///     #[transition(to(Shipped, Cancelled))]
///     Paid,
///     Shipped,
///     Cancelled,
/// }
///
/// assert_eq!(OrderState::Placed.successors(), [OrderState::Paid, OrderState::Cancelled]);
/// assert!(OrderState::mermaid().contains("Paid --> Shipped"));
/// ```
///
/// The derive gives `OrderState::transition(&mut tx, id, from, to)` ([`transition`] has the contract), `mermaid()`, and with a version
/// `transition_at`.
///
/// | attribute on the enum | meaning |
/// |---|---|
/// | `table = "orders"`, `table = "shop.orders"` | the table, with its schema if need be; quoted, so written exactly as the database has it |
/// | `key = "id"` | the column that is the key, unique in the table |
/// | `state = "state"` | the column of the state, `NOT NULL` |
/// | `version = "version"` | the version column, if the table has one: every transition raises it, so values that were loaded before it are stale |
/// | `history = "order_history"` | a table that gets a row for every transition, in the same transaction: columns named like the key, `from_state` and `to_state`; give others, such as a time or a number, defaults |
/// | `integer` | states are stored as integers; as text otherwise |
/// | `crate = "prelude::occ"` | where the generated code finds this crate. Needed only if it is seen through a crate of your own: as `leastlock-occ`, or in the facade `leastlock`, it is found under whatever name `Cargo.toml` gives it |
///
/// | attribute on a variant | meaning |
/// |---|---|
/// | `initial` | a row may begin with it |
/// | `to(Paid, Cancelled)` | the states that may follow; none for a state that is final |
/// | `value = "paid"`, `value = 2` | what stands in the column. Without it, the name in snake case, or the discriminant |
///
/// Text is a `TEXT`, `VARCHAR` or, on MySQL, `VARBINARY` column; an `ENUM` type of PostgreSQL's is not compared with text.
///
/// # Contract
/// `STATES` names each state once. The rest answers the same always. Derived; by hand it serves [`mermaid`] only.
pub trait Transition: Copy + PartialEq + fmt::Debug + 'static {
    /// What the machine is called.
    const MACHINE: &'static str;

    /// The table.
    const TABLE: &'static str;

    /// All states.
    const STATES: &'static [Self];

    /// What the state is called in the source.
    fn name(self) -> &'static str;

    /// Whether a row may begin with this state.
    fn is_initial(self) -> bool;

    /// The states that may follow.
    fn successors(self) -> &'static [Self];
}

/// A machine whose table has a version column. Derived along with [`Transition`].
pub trait HasVersion: Transition {}

/// A [`Transition`] on a certain engine: its statements with the values bound. Derived along with it.
///
/// Generic code needs it as a bound: `async fn pay<DB: Dialect>(tx: &mut Transaction<'_, DB>) where OrderState: StoredState<DB>`.
pub trait StoredState<DB: Dialect>: Transition {
    #[doc(hidden)]
    const HAS_VERSION: bool;

    /// For messages; empty where there is none.
    #[doc(hidden)]
    const VERSION_COLUMN: &'static str;

    #[doc(hidden)]
    fn advance<K: RowKey<DB>>(
        id: K,
        from: Self,
        to: Self,
        expected: Option<Version>,
    ) -> Query<'static, DB, DB::Arguments>;

    /// Column 0 is the state, column 1 the version if there is one.
    #[doc(hidden)]
    fn actual<K: RowKey<DB>>(id: K) -> Query<'static, DB, DB::Arguments>;

    #[doc(hidden)]
    fn record<K: RowKey<DB>>(id: K, from: Self, to: Self) -> Option<Query<'static, DB, DB::Arguments>>;

    /// `None` for what is no state.
    #[doc(hidden)]
    fn read(row: &Row<DB>) -> Result<Option<Self>, sqlx::Error>;
}

/// The key of a row: anything that sqlx can bind, such as `&str`, `i64` or `&String`.
pub trait RowKey<DB: Database>: Clone + Type<DB> + for<'q> Encode<'q, DB> {}

impl<DB: Database, K> RowKey<DB> for K where K: Clone + Type<DB> + for<'q> Encode<'q, DB> {}

/// The outcome of a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a transition that ran without error may have met a conflict"]
pub enum Transitioned<S> {
    /// The row is in the new state.
    Applied,
    /// Not moved. Nothing was written.
    Conflict(StateConflict<S>),
}

impl<S> Transitioned<S> {
    /// What stood against it, as an error: for `?` where a conflict ends the unit of work.
    pub fn into_result(self) -> Result<(), StateConflict<S>> {
        match self {
            Self::Applied => Ok(()),
            Self::Conflict(conflict) => Err(conflict),
        }
    }
}

/// Why a transition was refused.
///
/// In a unit of [`Retry`](crate::Retry) only [`Stale`](Self::Stale) is run again. The others are answers, which a rerun would meet
/// again; [`MayConflict`](crate::MayConflict) says how a unit that reads the state in each attempt has them run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a conflict means that nothing was written"]
pub enum StateConflict<S> {
    /// The row is in another state.
    State {
        /// The state that the transition was to leave.
        expected: S,
        /// The state that the row is in now, read by a statement of its own after the refused one.
        actual: S,
    },
    /// The row is in the expected state, but somebody else has written it.
    Stale {
        /// The version that the transition was made for.
        expected: Version,
        /// The version that stands in the table now.
        actual: Version,
    },
    /// The row is not there.
    Gone,
}

impl<S: Transition> fmt::Display for StateConflict<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State { expected, actual } => write!(f, "expected {}, found {}", expected.name(), actual.name()),
            Self::Stale { expected, actual } => write!(f, "stale: expected {expected}, found {actual}"),
            Self::Gone => f.write_str("gone: the row does not exist"),
        }
    }
}

impl<S: Transition> std::error::Error for StateConflict<S> {}

/// Moves the row with this key from one state to another, if it is in the first, and records it if the machine has a history.
///
/// One conditional `UPDATE` decides, under the row lock that it takes itself: of any number of concurrent transitions out
/// of a state, exactly one is applied. A version column is raised but not checked; [`transition_at`] checks it.
///
/// A refused update is followed by a second statement that reads the state now in the table. It locks the row until the
/// transaction ends (`FOR UPDATE`, on PostgreSQL `FOR NO KEY UPDATE`; on SQLite the transaction has the write lock already): had the row come back to the
/// expected state in between, the update is run once more, and this time the answer is final.
///
/// # Errors
/// [`Error::IllegalTransition`] before any SQL, if the machine has no such edge. [`Error::UnknownState`] if what stands in the column is no state,
/// [`Error::NullVersion`], [`Error::VersionType`], [`Error::VersionOverflow`], [`Error::Suppressed`], [`Error::Database`]; [`Error::RowsOutOfBounds`] if the key is
/// not unique or the history row was suppressed, after which the transaction cannot commit
/// (see [`BoundedQuery::execute`](crate::BoundedQuery::execute)).
///
/// # Cancel safety
/// Dropped half-way, the row may have been moved without its history: drop the transaction as well, do not commit it.
pub async fn transition<DB, S>(
    transaction: &mut Transaction<'_, DB>,
    id: impl RowKey<DB>,
    from: S,
    to: S,
) -> Result<Transitioned<S>, Error>
where
    DB: Dialect,
    S: StoredState<DB>,
{
    advance(transaction, id, from, to, None).await
}

/// As [`transition`], if the row also has the version `expected`.
///
/// # Errors
/// As [`transition`].
///
/// # Cancel safety
/// As [`transition`].
pub async fn transition_at<DB, S>(
    transaction: &mut Transaction<'_, DB>,
    id: impl RowKey<DB>,
    expected: Version,
    from: S,
    to: S,
) -> Result<Transitioned<S>, Error>
where
    DB: Dialect,
    S: StoredState<DB> + HasVersion,
{
    expected.next()?;
    advance(transaction, id, from, to, Some(expected)).await
}

async fn advance<DB, S>(
    transaction: &mut Transaction<'_, DB>,
    id: impl RowKey<DB>,
    from: S,
    to: S,
    expected: Option<Version>,
) -> Result<Transitioned<S>, Error>
where
    DB: Dialect,
    S: StoredState<DB>,
{
    if !from.successors().contains(&to) {
        return Err(Error::IllegalTransition { machine: S::MACHINE, from: from.name(), to: to.name() });
    }
    for _ in 0..2 {
        let update = S::advance(id.clone(), from, to, expected);
        match DB::run_query(transaction, update).await.map_err(Error::database::<DB>)? {
            0 => {}
            1 => return record(transaction, id, from, to).await,
            rows => return Err(out_of_bounds(transaction, rows).await?),
        }
        if let Some(conflict) = conflict(transaction, id.clone(), from, expected).await? {
            return Ok(Transitioned::Conflict(conflict));
        }
    }
    Err(Error::Suppressed { table: S::TABLE })
}

async fn record<DB, S>(
    transaction: &mut Transaction<'_, DB>,
    id: impl RowKey<DB>,
    from: S,
    to: S,
) -> Result<Transitioned<S>, Error>
where
    DB: Dialect,
    S: StoredState<DB>,
{
    if let Some(insert) = S::record(id, from, to) {
        match DB::run_query(transaction, insert).await.map_err(Error::database::<DB>)? {
            1 => {}
            rows => return Err(out_of_bounds(transaction, rows).await?),
        }
    }
    Ok(Transitioned::Applied)
}

/// What stands against a transition, read under the row's lock; `None` if nothing does any more.
async fn conflict<DB, S>(
    transaction: &mut Transaction<'_, DB>,
    id: impl RowKey<DB>,
    from: S,
    expected: Option<Version>,
) -> Result<Option<StateConflict<S>>, Error>
where
    DB: Dialect,
    S: StoredState<DB>,
{
    let row = DB::fetch_query(transaction, S::actual(id)).await.map_err(Error::database::<DB>)?;
    let Some(row) = row else { return Ok(Some(StateConflict::Gone)) };
    let actual = S::read(&row).map_err(Error::database::<DB>)?;
    let actual = actual.ok_or(Error::UnknownState { machine: S::MACHINE, table: S::TABLE })?;
    if actual != from {
        return Ok(Some(StateConflict::State { expected: from, actual }));
    }
    if S::HAS_VERSION {
        let version = Error::version_in(&row, 1, (S::TABLE, S::VERSION_COLUMN))?;
        if let Some(expected) = expected.filter(|expected| *expected != version) {
            return Ok(Some(StateConflict::Stale { expected, actual: version }));
        }
        version.next()?;
    }
    Ok(None)
}

async fn out_of_bounds<DB: Dialect>(transaction: &mut Transaction<'_, DB>, actual: u64) -> Result<Error, Error> {
    DB::poison(transaction).await.map_err(Error::database::<DB>)?;
    Ok(Error::RowsOutOfBounds { expected: Bound::Exactly(1), actual })
}

/// The machine as a Mermaid state diagram, for documentation that cannot fall behind the code.
#[must_use]
pub fn mermaid<S: Transition>() -> String {
    let mut lines = vec!["stateDiagram-v2".to_owned()];
    for state in S::STATES.iter().filter(|state| state.is_initial()) {
        lines.push(format!("    [*] --> {}", state.name()));
    }
    for state in S::STATES {
        lines.extend(state.successors().iter().map(|next| format!("    {} --> {}", state.name(), next.name())));
        if state.successors().is_empty() {
            lines.push(format!("    {} --> [*]", state.name()));
        }
    }
    lines.join("\n") + "\n"
}
