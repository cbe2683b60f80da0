//! What retries and combiners measure: each figure moves on its condition and on no other, and labels say nothing but the words
//! that are written down for them.
#![cfg(feature = "metrics")]

#[cfg(feature = "sqlite")]
mod combining;
mod described;
#[cfg(feature = "sqlite")]
mod doubles;
#[cfg(feature = "sqlite")]
mod limits;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
#[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "most figures are shown on SQLite"))]
mod operations;
#[cfg(feature = "sqlite")]
mod retrying;
#[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "most figures are shown on SQLite"))]
mod seen;
#[cfg(any(feature = "postgres", feature = "mysql"))]
mod servers;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
#[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "most figures are shown on SQLite"))]
mod units;
