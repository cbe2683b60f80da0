//! What a caller asks of a counter.

use sha2::{Digest, Sha256};

/// The longest key and the longest order id, in bytes.
const MAX_LENGTH: usize = 255;
/// The most rows of one movement.
const MAX_ROWS: usize = 1_000;
/// The most units of one row in one movement: sums of a movement cannot overflow.
const MAX_UNITS: i64 = 1_000_000_000_000_000;

/// Units that are taken from rows or given back to them, all or nothing.
///
/// ```
/// use leastlock_occ::Movement;
///
/// # fn main() -> Result<(), leastlock_occ::MovementError> {
/// let order = Movement::take("85123A", 3)?.and_take("22423", 1)?.with_order_id("536365")?;
/// let cancelled = Movement::give("85123A", 3)?.and_give("22423", 1)?.with_order_id("C536365")?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a movement moves nothing until it is submitted"]
pub struct Movement<N = ()> {
    /// Each key once.
    changes: Vec<(String, i64)>,
    order_id: Option<String>,
    note: N,
}

impl Movement {
    /// Takes `units` from the row of `key`: from 1 to 10^15.
    ///
    /// # Errors
    /// [`MovementError`] when key or units are out of bounds.
    pub fn take(key: impl Into<String>, units: i64) -> Result<Self, MovementError> {
        Self::empty().and_take(key, units)
    }

    /// Gives `units` back to the row of `key`: from 1 to 10^15.
    ///
    /// # Errors
    /// [`MovementError`] when key or units are out of bounds.
    pub fn give(key: impl Into<String>, units: i64) -> Result<Self, MovementError> {
        Self::empty().and_give(key, units)
    }

    /// Moves nothing as yet. Submitted like this, it is applied whatever the rows have, remembered under its order id, and written
    /// [`Beside`](super::Beside) like any other: an order of which no line touches stock.
    ///
    /// ```
    /// use leastlock_occ::Movement;
    ///
    /// # fn main() -> Result<(), leastlock_occ::MovementError> {
    /// let lines = [("85123A", 3), ("22423", 1)];
    /// let order = lines.into_iter().try_fold(Movement::empty(), |order, (code, units)| order.and_take(code, units))?;
    /// # assert_eq!(order, Movement::take("85123A", 3)?.and_take("22423", 1)?);
    /// # Ok(())
    /// # }
    /// ```
    pub const fn empty() -> Self {
        Self { changes: Vec::new(), order_id: None, note: () }
    }
}

impl<N> Movement<N> {
    /// Takes `units` from the row of `key` as well. What is taken from and given to one row is summed up first.
    ///
    /// # Errors
    /// [`MovementError`] when key or units are out of bounds, or these are more than 1,000 rows.
    pub fn and_take(self, key: impl Into<String>, units: i64) -> Result<Self, MovementError> {
        self.and(key.into(), units, -1)
    }

    /// Gives `units` back to the row of `key` as well.
    ///
    /// # Errors
    /// [`MovementError`] when key or units are out of bounds, or these are more than 1,000 rows.
    pub fn and_give(self, key: impl Into<String>, units: i64) -> Result<Self, MovementError> {
        self.and(key.into(), units, 1)
    }

    /// Gives the movement a unique id of 1 to 255 bytes: the first movement under an id is answered, and the answer is kept
    /// in its transaction; a repeat is answered as the first was, refusals included, and moves nothing. The same rows and units
    /// make it a repeat, whatever its [note](Self::with_note) is; others are [`Mismatch`](super::Counted::Mismatch). Ids are kept in
    /// a table that [`MIGRATIONS`](crate::MIGRATIONS) makes.
    ///
    /// # Errors
    /// [`MovementError::BadOrderId`].
    pub fn with_order_id(mut self, order_id: impl Into<String>) -> Result<Self, MovementError> {
        let order_id = order_id.into();
        if !is_text(&order_id) {
            return Err(MovementError::BadOrderId);
        }
        self.order_id = Some(order_id);
        Ok(self)
    }

    /// Hands something over for what is written [`Beside`](super::Beside) the movement. Notes are not compared: a repeat of an
    /// order id with another note is answered as the first was, and its note is written nowhere. What must not differ belongs into
    /// the order id.
    pub fn with_note<M>(self, note: M) -> Movement<M> {
        Movement { changes: self.changes, order_id: self.order_id, note }
    }

    /// What each row changes by, each key once; negative is taken.
    #[must_use]
    pub fn changes(&self) -> &[(String, i64)] {
        &self.changes
    }

    /// The order id.
    #[must_use]
    pub fn order_id(&self) -> Option<&str> {
        self.order_id.as_deref()
    }

    /// What was handed over.
    #[must_use]
    pub const fn note(&self) -> &N {
        &self.note
    }

    /// Tells one movement from another under the same id: the beginning of a SHA-256 over rows and units, in the order of the
    /// keys. It guards against mistakes, not against an adversary.
    pub(super) fn digest(&self) -> i64 {
        let mut changes: Vec<_> = self.changes.iter().collect();
        changes.sort_unstable();
        let mut hash = Sha256::new();
        for (key, delta) in changes {
            hash.update((key.len() as u64).to_be_bytes());
            hash.update(key);
            hash.update(delta.to_be_bytes());
        }
        let hash = <[u8; 32]>::from(hash.finalize());
        hash[..8].iter().fold(0, |digest, byte| digest << 8 | i64::from(*byte))
    }

    fn and(mut self, key: String, units: i64, sign: i64) -> Result<Self, MovementError> {
        if !is_text(&key) {
            return Err(MovementError::BadKey);
        }
        if !(1..=MAX_UNITS).contains(&units) {
            return Err(MovementError::UnitsOutOfBounds { units });
        }
        let known = self.changes.iter().position(|(other, _)| *other == key);
        match known {
            Some(place) => {
                let sum = self.changes[place].1 + sign * units;
                if sum.abs() > MAX_UNITS {
                    return Err(MovementError::UnitsOutOfBounds { units: sum });
                }
                self.changes[place].1 = sum;
            }
            None if self.changes.len() == MAX_ROWS => return Err(MovementError::TooManyRows),
            None => self.changes.push((key, sign * units)),
        }
        Ok(self)
    }
}

/// Text that every engine stores as it is.
fn is_text(text: &str) -> bool {
    (1..=MAX_LENGTH).contains(&text.len()) && !text.contains('\0')
}

/// Why a movement cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MovementError {
    /// A key is empty, longer than 255 bytes, or has a NUL in it.
    #[error("a key has 1 to 255 bytes and no NUL")]
    BadKey,
    /// An order id is empty, longer than 255 bytes, or has a NUL in it.
    #[error("an order id has 1 to 255 bytes and no NUL")]
    BadOrderId,
    /// Units are not from 1 to 10^15, or a row's sum is beyond that.
    #[error("{units} units are not from 1 to 10^15")]
    UnitsOutOfBounds {
        /// The units.
        units: i64,
    },
    /// More than 1,000 rows.
    #[error("a movement has at most 1,000 rows")]
    TooManyRows,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_bounds_cannot_be_made() {
        let units = |units| MovementError::UnitsOutOfBounds { units };
        assert_eq!(Movement::take("", 1), Err(MovementError::BadKey));
        assert_eq!(Movement::take("a\0", 1), Err(MovementError::BadKey));
        assert_eq!(Movement::take("a", 0), Err(units(0)));
        assert_eq!(Movement::take("a", -1), Err(units(-1)));
        assert_eq!(Movement::give("a", i64::MIN), Err(units(i64::MIN)));
        assert_eq!(Movement::take("a", 1).unwrap().with_order_id("x".repeat(256)), Err(MovementError::BadOrderId));
        let many = (0..1_000).try_fold(Movement::empty(), |many, n| many.and_take(n.to_string(), 1)).unwrap();
        assert_eq!(many.and_take("one more", 1), Err(MovementError::TooManyRows));
        let most = Movement::give("a", MAX_UNITS).unwrap();
        assert_eq!(most.and_give("a", 1), Err(units(MAX_UNITS + 1)));
    }

    #[test]
    fn each_key_stands_once_and_the_digest_knows_rows_and_units_only() {
        let one = Movement::take("a", 3).unwrap().and_give("b", 2).unwrap().and_give("a", 1).unwrap();
        assert_eq!(one.changes(), [("a".to_owned(), -2), ("b".to_owned(), 2)]);
        let same = Movement::give("b", 2).unwrap().and_take("a", 2).unwrap().with_order_id("7").unwrap();
        assert_eq!(one.digest(), same.digest());
        assert_ne!(one.digest(), Movement::take("a", 2).unwrap().digest());
        // A stored digest must mean the same in every later version.
        assert_eq!(Movement::take("85123A", 3).unwrap().digest(), DIGEST);
    }

    const DIGEST: i64 = 7_360_011_416_442_389_652;
}
