//! What must not compile with `leastlock-lease`, as tests.
//!
//! They are a crate of their own because `trybuild` builds everything that a crate's tests use once more, and these need no server,
//! no driver and no feature.
