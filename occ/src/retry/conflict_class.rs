//! What kind of conflict a unit of work met.

use leastlock_core::ErrorClass;

/// What kind of conflict a unit of work met. All are answered by running it again; they are told apart because they say
/// different things about the rows: many of [`Version`](Self::Version) mean a hot row, of [`Deadlock`](Self::Deadlock) that two
/// units lock in different orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConflictClass {
    /// A row has another version than was loaded, or is gone ([`Conflict`](crate::Conflict)).
    Version,
    /// A row is in another state than was read in the same attempt. Only an error type of the application's own says so: by
    /// itself no [`StateConflict`](crate::StateConflict) about a state is run again.
    State,
    /// The isolation level found it ([`ErrorClass::SerializationFailure`]).
    SerializationFailure,
    /// The engine ended this transaction to let another one go on ([`ErrorClass::Deadlock`]).
    Deadlock,
    /// SQLite's one write lock was taken ([`ErrorClass::Busy`]).
    Busy,
    /// One that the application has found by itself.
    Other,
}

impl ConflictClass {
    /// The conflict that a database error is, if it is one ([`ErrorClass::is_conflict`]).
    #[must_use]
    pub const fn of(class: ErrorClass) -> Option<Self> {
        match class {
            ErrorClass::SerializationFailure => Some(Self::SerializationFailure),
            ErrorClass::Deadlock => Some(Self::Deadlock),
            ErrorClass::Busy => Some(Self::Busy),
            class if class.is_conflict() => Some(Self::Other),
            _ => None,
        }
    }

    /// What to do about a unit of work that met this at every attempt.
    pub(super) const fn advice(self) -> &'static str {
        match self {
            Self::Version => {
                "the row is too hot for optimistic control; decide in one conditional statement, combine the operations, \
                 or lock the row (or its value is from before the attempt: load it in each)"
            }
            Self::State => {
                "the row was in another state each time; read the state in every attempt and decide by it, or lock the row"
            }
            Self::SerializationFailure => {
                "other transactions kept changing what it had read; make it shorter, or lock the rows before they are read"
            }
            Self::Deadlock => {
                "it kept meeting transactions that lock the same rows in another order; lock in one order"
            }
            Self::Busy => {
                "somebody else kept SQLite's write lock; keep write transactions short, and give connections a busy_timeout"
            }
            Self::Other => "it is of the application's own kind",
        }
    }

    /// As a word that stays the same: in metrics it is the label `class`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Version => "version_conflict",
            Self::State => "state_conflict",
            Self::SerializationFailure => "serialization_failure",
            Self::Deadlock => "deadlock",
            Self::Busy => "busy",
            Self::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_a_word_and_an_advice_of_its_own() {
        use ConflictClass::{Busy, Deadlock, Other, SerializationFailure, State, Version};
        let classes = [Version, State, SerializationFailure, Deadlock, Busy, Other];
        for of in [ConflictClass::name, ConflictClass::advice] {
            let texts: std::collections::BTreeSet<_> = classes.map(of).into();
            assert_eq!(texts.len(), classes.len(), "{texts:?}");
        }
        let too_hot = classes.map(|class| class.advice().contains("too hot"));
        assert_eq!(too_hot, [true, false, false, false, false, false], "only versions say that a row is hot");
    }

    #[test]
    fn database_errors_are_conflicts_as_their_class_says() {
        for class in [
            ErrorClass::SerializationFailure,
            ErrorClass::Deadlock,
            ErrorClass::Busy,
            ErrorClass::LockTimeout,
            ErrorClass::StatementTimeout,
            ErrorClass::UniqueViolation,
            ErrorClass::ConnectionLost,
            ErrorClass::PoolTimeout,
            ErrorClass::Unavailable,
            ErrorClass::Other,
        ] {
            assert_eq!(ConflictClass::of(class).is_some(), class.is_conflict(), "{class:?}");
            assert_ne!(ConflictClass::of(class), Some(ConflictClass::Other), "{class:?} has a name of its own");
        }
    }
}
