//! The statements of the suspects, per engine.

use leastlock_core::Dialect;

/// The constants, from the folder of an engine.
#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
macro_rules! statements {
    ($engine:literal) => {
        const TENURE_LOCK: &'static str = include_str!(concat!("../../sql/", $engine, "/tenure_lock.sql"));
        const TENURE_FIRST: &'static str = include_str!(concat!("../../sql/", $engine, "/tenure_first.sql"));
        const TENURE_BEGIN: &'static str = include_str!(concat!("../../sql/", $engine, "/tenure_begin.sql"));
        const TENURE_END: &'static str = include_str!(concat!("../../sql/", $engine, "/tenure_end.sql"));
        const TENURE_FORGET: &'static str = include_str!(concat!("../../sql/", $engine, "/tenure_forget.sql"));
        const SUSPECT_FORGET_ALL: &'static str =
            include_str!(concat!("../../sql/", $engine, "/suspect_forget_all.sql"));
        const SUSPECT_DIED: &'static str = include_str!(concat!("../../sql/", $engine, "/suspect_died.sql"));
        const SUSPECT_LIVED: &'static str = include_str!(concat!("../../sql/", $engine, "/suspect_lived.sql"));
        const SUSPECT_FORGET: &'static str = include_str!(concat!("../../sql/", $engine, "/suspect_forget.sql"));
        const SUSPECT_LIST: &'static str = include_str!(concat!("../../sql/", $engine, "/suspect_list.sql"));
        const SUSPECT_START: &'static str = include_str!(concat!("../../sql/", $engine, "/suspect_start.sql"));
        const SUSPECT_NEW: &'static str = include_str!(concat!("../../sql/", $engine, "/suspect_new.sql"));
        const SUSPECT_ALIVE: &'static str = include_str!(concat!("../../sql/", $engine, "/suspect_alive.sql"));
        const SUSPECT_CLEARED: &'static str = include_str!(concat!("../../sql/", $engine, "/suspect_cleared.sql"));
    };
}

/// An engine that remembers at which records a process has died. Sealed, as [`Dialect`] is.
///
/// # Contract
/// Unless it says otherwise, a statement takes group, topic and partition as its first parameters; what follows stands beside each
/// constant.
pub trait PoisonSql: Dialect {
    /// → epoch, whether it ended in an orderly way, how many suspects are left; or no row.
    const TENURE_LOCK: &'static str;
    /// epoch.
    const TENURE_FIRST: &'static str;
    /// Epoch and number of suspects first; then group, topic, partition.
    const TENURE_BEGIN: &'static str;
    /// Number of suspects left first; then group, topic, partition, epoch.
    const TENURE_END: &'static str;
    /// Who owned it last is forgotten.
    const TENURE_FORGET: &'static str;
    /// All of them are forgotten.
    const SUSPECT_FORGET_ALL: &'static str;
    /// Those that ran have died once more.
    const SUSPECT_DIED: &'static str;
    /// Those that ran have lived.
    const SUSPECT_LIVED: &'static str;
    /// Those that no death is held against are forgotten.
    const SUSPECT_FORGET: &'static str;
    /// → offset, deaths.
    const SUSPECT_LIST: &'static str;
    /// Epoch first; then group, topic, partition, offset → one row changed if it was there.
    const SUSPECT_START: &'static str;
    /// offset, epoch.
    const SUSPECT_NEW: &'static str;
    /// offset, epoch.
    const SUSPECT_ALIVE: &'static str;
    /// offset.
    const SUSPECT_CLEARED: &'static str;
}

#[cfg(feature = "postgres")]
impl PoisonSql for sqlx::Postgres {
    statements!("postgres");
}

#[cfg(feature = "sqlite")]
impl PoisonSql for sqlx::Sqlite {
    statements!("sqlite");
}

#[cfg(feature = "mysql")]
impl PoisonSql for sqlx::MySql {
    statements!("mysql");
}
