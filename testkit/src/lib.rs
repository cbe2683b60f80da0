//! What the tests of leastlock need: databases, brokers, a fault proxy, process control and history checkers.
//!
//! | module | concept |
//! |---|---|
//! | [`database`] | a fresh database per test on each engine |
//! | [`mount!`] | one conformance suite, mounted once per engine |
//! | [`process`] | children that can be killed, stopped and continued |

pub mod database;
mod mount;
pub mod process;

pub use crate::database::{TestDatabase, TestEngine};
