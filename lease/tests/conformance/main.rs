//! The lease and the fence on every backend, with the mistakes that the same tests reject.
#![cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]

mod admin;
mod clock;
mod election;
mod fencing;
mod holding;
#[cfg(feature = "sqlite")]
mod logging;
mod once;
#[cfg(all(feature = "redis", feature = "sqlite"))]
mod redis_server;
mod rig;
mod running;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod stopped_holder;
mod waking;
mod wire;
mod world;
