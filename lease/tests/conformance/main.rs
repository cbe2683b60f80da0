//! The lease and the fence on every backend, with the mistakes that the same tests reject.
#![cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]

mod admin;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod advisory;
mod clock;
#[cfg(all(any(feature = "etcd", feature = "zookeeper"), feature = "sqlite"))]
mod clusters;
mod election;
#[cfg(all(feature = "etcd", feature = "sqlite"))]
mod etcd_server;
#[cfg(all(any(feature = "etcd", feature = "zookeeper"), feature = "sqlite"))]
mod fair;
mod fencing;
mod holding;
#[cfg(feature = "sqlite")]
mod logging;
mod once;
mod passing;
#[cfg(all(feature = "redis", feature = "sqlite"))]
mod redis_server;
#[cfg(all(feature = "redis", feature = "sqlite"))]
mod redlock;
mod resources;
mod rig;
mod running;
#[cfg(feature = "sqlite")]
mod runtimes;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod stopped_holder;
#[cfg(any(feature = "postgres", feature = "mysql", all(feature = "redis", feature = "sqlite")))]
mod tokenless;
mod two_clocks;
mod waking;
mod wire;
mod world;
#[cfg(all(feature = "zookeeper", feature = "sqlite"))]
mod zookeeper_server;
#[cfg(all(feature = "zookeeper", feature = "sqlite"))]
mod zookeeper_session;
