//! What the tests of leastlock need: databases, brokers, a fault proxy, process control and history checkers.
//!
//! Its README shows how a test is written with it.
//!
//! | module | concept |
//! |---|---|
//! | [`database`] | a fresh database per test on each engine, or one that a suite's tests use in turn |
//! | [`cluster`] | a PostgreSQL cluster of the test's own |
//! | [`mount!`] | one conformance suite, mounted once per engine |
//! | [`dropped_after`], [`Drops`] | a future that is dropped half-way, at each point at which it waits |
//! | [`example`] | the binary of an example, for the tests that run it |
//! | [`until`] | a condition that has to come to hold |
//! | [`process`] | children that can be killed, stopped and continued |
//! | [`proxy`] | a TCP proxy that loses, delays and cuts, at a chosen statement |
//! | `broker` (feature `kafka`) | a mock cluster or the real broker, with topics of the test's own |
//! | [`history`] | what happened, in the order in which it was recorded |
//! | [`checkers`] | what a history has to satisfy, one pure function per guarantee |
//! | [`cases`] | which cases ran on which engines |
//! | [`retail`] | real orders, for those who have them |

#![allow(
    clippy::missing_panics_doc,
    reason = "what goes wrong in here fails the test, and a panic is how that is done"
)]

#[cfg(feature = "kafka")]
pub mod broker;
mod cancel;
pub mod cases;
pub mod checkers;
pub mod cluster;
pub mod database;
mod example;
pub mod history;
mod locks;
mod mount;
pub mod process;
pub mod proxy;
pub mod retail;
mod until;

/// Where the five Redis for tests listen, joined by commas; `scripts/services env` prints it. The first may have a replica.
pub const REDIS_URLS: &str = "LEASTLOCK_REDIS_URLS";
/// Where the etcd for tests listens; `scripts/services env` prints it.
pub const ETCD_ENDPOINTS: &str = "LEASTLOCK_ETCD_ENDPOINTS";
/// Where the ZooKeeper for tests listens; `scripts/services env` prints it.
pub const ZOOKEEPER_CONNECT: &str = "LEASTLOCK_ZOOKEEPER_CONNECT";

/// The Java runtime and the folder of jars that a test starts a ZooKeeper of its own with; `scripts/services env` prints them.
pub const ZOOKEEPER_JAVA: &str = "LEASTLOCK_ZOOKEEPER_JAVA";
/// See [`ZOOKEEPER_JAVA`].
pub const ZOOKEEPER_JARS: &str = "LEASTLOCK_ZOOKEEPER_JARS";

pub use crate::cancel::{Drops, dropped_after};
pub use crate::database::{TestDatabase, TestEngine};
pub use crate::example::{EXAMPLES, example};
pub use crate::until::until;
