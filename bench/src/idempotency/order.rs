//! What clients ask for, and what they are answered.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// How many rows there are.
pub(super) const ROWS: usize = 1000;

/// What a client sends: units of an item, under a key of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Travels beside the body, in no contender in it.
    #[serde(skip)]
    pub(super) key: String,
    pub(super) item: String,
    pub(super) units: i64,
}

/// What it gets, and gets again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    item: String,
    units: i64,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Placed {
    First(Receipt),
    Replay(Receipt),
}

impl Order {
    /// A unit of any item, under a key of 128 random bits.
    pub(super) fn random(rng: &mut Rng) -> Self {
        let item = format!("item-{}", rng.usize(..ROWS));
        Self { key: format!("{:032x}", rng.u128(..)), item, units: 1 }
    }

    /// The order of this number, as `wrk/orders.lua` makes it: the multiplier scatters neighbours over the rows (Knuth, The
    /// Art of Computer Programming, vol. 3, 6.4).
    pub(super) fn numbered(prefix: &str, number: u64) -> Self {
        let scattered = number.wrapping_mul(2_654_435_761) % (1 << 32);
        let item = format!("item-{}", (scattered >> 16) % ROWS as u64);
        Self { key: format!("{prefix}{number:016x}"), item, units: 1 }
    }

    /// The body of the request.
    pub(super) fn body(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }

    /// The answer, once the units are taken.
    pub(super) fn receipt(&self) -> Receipt {
        Receipt { item: self.item.clone(), units: self.units }
    }
}
