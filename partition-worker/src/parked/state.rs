//! The states of a queue of parked records.

/// What is to become of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing, until somebody asks.
    Parked,
    /// Its records are handled from the first on.
    Releasing,
}

impl State {
    pub(super) fn read(name: &str) -> Result<Self, sqlx::Error> {
        match name {
            "parked" => Ok(Self::Parked),
            "releasing" => Ok(Self::Releasing),
            _ => Err(sqlx::Error::Decode("an unknown state of parked records".into())),
        }
    }
}
