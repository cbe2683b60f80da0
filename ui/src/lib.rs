//! What must not compile with the crates, as tests.
//!
//! They are a crate of their own because `trybuild` compiles everything that a crate's tests use once more, and these need no server,
//! and of the drivers only the one that is all Rust.
