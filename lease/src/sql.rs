//! The statements of the lease and of the fence, per engine.

use leastlock_core::Dialect;

/// An SQL engine that can keep leases and fences. Sealed by [`Dialect`]: implemented for `sqlx::Postgres` and
/// `sqlx::Sqlite`, each behind the feature of its name.
///
/// # Contract
/// Each constant is one statement, with the parameters that the module which runs it binds; the files in `sql/` say which
/// lock it takes and at which isolation level it is right.
pub trait LeaseSql: Dialect {
    /// name, nonce, TTL in ms, floor or 0, job → token; no row if somebody else holds the lock.
    const ACQUIRE: &'static str;
    /// name → nonce, token, age in ms, remaining ms, job.
    const HOLDER: &'static str;
    /// name, nonce, token, TTL in ms → one row changed, or none.
    const RENEW: &'static str;
    /// name, nonce → one row changed, or none.
    const RELEASE: &'static str;
    /// resource, generation, nonce → generation; no row if it is refused.
    const RAISE_GATE: &'static str;
    /// Time-out of the wait in ms, of idling in ms → backend. `None` where the engine has no such limits.
    const SEAL_LIMITS: Option<&'static str>;
    /// resource, generation, nonce → generation; no row if it is refused.
    const RAISE_GUARD: &'static str;
    /// backend → pid, state, ms in that state, of each that it waits for. `None` where the engine does not tell.
    const BLOCKERS: Option<&'static str>;
    /// resource, generation, nonce, longest idling in ms → one row, or none if it is refused.
    const CHECK: &'static str;
    /// resource → generation and nonce of the gate, generation of the guard or NULL.
    const SEALED: &'static str;
}

#[cfg(feature = "postgres")]
impl LeaseSql for sqlx::Postgres {
    const ACQUIRE: &'static str = include_str!("../sql/postgres/acquire.sql");
    const HOLDER: &'static str = include_str!("../sql/postgres/holder.sql");
    const RENEW: &'static str = include_str!("../sql/postgres/renew.sql");
    const RELEASE: &'static str = include_str!("../sql/postgres/release.sql");
    const RAISE_GATE: &'static str = include_str!("../sql/postgres/raise_gate.sql");
    const SEAL_LIMITS: Option<&'static str> = Some(include_str!("../sql/postgres/seal_limits.sql"));
    const RAISE_GUARD: &'static str = include_str!("../sql/postgres/raise_guard.sql");
    const BLOCKERS: Option<&'static str> = Some(include_str!("../sql/postgres/blockers.sql"));
    const CHECK: &'static str = include_str!("../sql/postgres/check.sql");
    const SEALED: &'static str = include_str!("../sql/postgres/sealed.sql");
}

#[cfg(feature = "sqlite")]
impl LeaseSql for sqlx::Sqlite {
    const ACQUIRE: &'static str = include_str!("../sql/sqlite/acquire.sql");
    const HOLDER: &'static str = include_str!("../sql/sqlite/holder.sql");
    const RENEW: &'static str = include_str!("../sql/sqlite/renew.sql");
    const RELEASE: &'static str = include_str!("../sql/sqlite/release.sql");
    const RAISE_GATE: &'static str = include_str!("../sql/sqlite/raise_gate.sql");
    const SEAL_LIMITS: Option<&'static str> = None;
    const RAISE_GUARD: &'static str = include_str!("../sql/sqlite/raise_guard.sql");
    const BLOCKERS: Option<&'static str> = None;
    const CHECK: &'static str = include_str!("../sql/sqlite/check.sql");
    const SEALED: &'static str = include_str!("../sql/sqlite/sealed.sql");
}
