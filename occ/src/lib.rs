//! Optimistic concurrency control: guarded statements and versioned values.

mod bound;
mod conflict;
mod error;
mod guarded;
mod version;

pub use crate::bound::Bound;
pub use crate::conflict::{Conflict, Delete, Update};
pub use crate::error::Error;
pub use crate::guarded::{BoundedQuery, Guarded, GuardedQuery, guarded};
pub use crate::version::Version;
