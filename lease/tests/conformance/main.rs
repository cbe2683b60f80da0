//! The lease and the fence on every engine, with the mistakes that the same tests reject.
#![cfg(any(feature = "postgres", feature = "sqlite"))]

mod clock;
mod database;
mod fencing;
mod holding;
#[cfg(feature = "sqlite")]
mod logging;
mod running;
#[cfg(feature = "postgres")]
mod stopped_holder;
mod wire;
