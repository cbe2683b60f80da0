//! Whom a seal waits for.

/// A transaction that stands in the way of a seal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Blocker {
    /// The server process, as in `pg_stat_activity`.
    pub pid: i64,
    /// What it does (`idle in transaction` for a stopped holder); `None` where the role may not see it.
    pub state: Option<Box<str>>,
    /// For how long.
    pub for_ms: Option<i64>,
}
