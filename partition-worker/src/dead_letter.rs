//! Copies of records in another topic, and what they tell about their origin.
//!
//! A copy has the key, the value (a tombstone stays one), the timestamp and the headers of the original, in order and with repeats, and
//! behind these the headers of [`Origin`]. It stands in the partition that its key belongs to, as Java producers reckon it.
//!
//! Copies are made at least once: two with the same origin are the same record.

mod origin;
#[cfg(feature = "kafka")]
mod producer;
#[cfg(feature = "kafka")]
mod reader;

pub use self::origin::Origin;
#[cfg(feature = "kafka")]
pub(crate) use self::origin::Stamp;
#[cfg(feature = "kafka")]
pub(crate) use self::producer::{DeadLetters, SendError};
