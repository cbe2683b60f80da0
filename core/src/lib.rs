//! What the leastlock crates share: SQL dialects, error classes, migrations and backoff.
//!
//! This crate has no domain nouns. Something belongs here only when three of the mechanisms need it. Applications see
//! it in one place: as the [`Dialect`] bound of generic functions.
//!
//! | module | concept |
//! |---|---|
//! | [`dialect`] | one generic body, SQL per engine |
//! | [`statement`] | a statement with its parameters, and the rows it answers with |
//! | [`error_class`] | what a database error means for the caller |
//! | [`migrations`] | each crate's own tables, with its own history |
//! | [`transaction`] | begin and commit, cancel-safe and without false success |
//! | [`backoff`] | capped exponential delays with full jitter |

pub mod backoff;
pub mod dialect;
pub mod error_class;
pub mod migrations;
pub mod statement;
pub mod to_its_end;
pub mod transaction;

pub use crate::backoff::Backoff;
pub use crate::dialect::{Dialect, Engine};
pub use crate::error_class::{ErrorClass, classify};
pub use crate::migrations::{Migration, MigrationError, Migrations};
pub use crate::statement::{Param, Row, Statement};
pub use crate::to_its_end::{ToItsEnd, to_its_end};
pub use crate::transaction::{begin, begin_with, commit};
