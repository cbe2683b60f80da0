//! What became of a movement.

/// What became of a movement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[must_use = "a movement may have been refused"]
pub enum Counted {
    /// All its units were moved.
    Applied,
    /// A row has too few units, or would have more than a 64-bit integer holds: nothing was moved.
    Refused {
        /// The first such row of the movement.
        key: String,
        /// The units that it had.
        units: i64,
    },
    /// There is no such row: nothing was moved.
    NoSuchRow {
        /// The first missing row of the movement.
        key: String,
    },
    /// The order id was used for other rows or units: nothing was moved, and what that other movement was answered stands.
    Mismatch,
}

impl Counted {
    /// Whether the units were moved.
    #[must_use]
    pub const fn is_applied(&self) -> bool {
        matches!(self, Self::Applied)
    }

    /// How the answer is stored under an order id; a mismatch never is.
    pub(super) fn to_stored(&self) -> String {
        match self {
            Self::Applied => "applied".to_owned(),
            Self::Refused { key, units } => format!("refused {units} {key}"),
            Self::NoSuchRow { key } => format!("no-such-row {key}"),
            Self::Mismatch => "mismatch".to_owned(),
        }
    }

    /// The answer that was stored.
    pub(super) fn from_stored(text: &str) -> Result<Self, UnreadableAnswer> {
        let parsed = match text.split_once(' ') {
            None if text == "applied" => Some(Self::Applied),
            Some(("refused", rest)) => rest
                .split_once(' ')
                .and_then(|(units, key)| Some(Self::Refused { key: key.to_owned(), units: units.parse().ok()? })),
            Some(("no-such-row", key)) => Some(Self::NoSuchRow { key: key.to_owned() }),
            _ => None,
        };
        parsed.ok_or_else(|| UnreadableAnswer(text.to_owned()))
    }
}

/// A stored answer that this version cannot read.
#[derive(Debug, thiserror::Error)]
#[error("the stored answer {0:?} cannot be read; it was written by a later version or by hand")]
pub(super) struct UnreadableAnswer(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_answer_is_read_as_it_was() {
        for answer in [
            Counted::Applied,
            Counted::Refused { key: "a b  c".to_owned(), units: -3 },
            Counted::NoSuchRow { key: " ".to_owned() },
        ] {
            assert_eq!(Counted::from_stored(&answer.to_stored()).expect("its own form"), answer);
        }
        for wrong in ["", "mismatch", "applied ", "refused x y", "refused 1"] {
            assert!(Counted::from_stored(wrong).is_err(), "{wrong:?}");
        }
    }
}
