//! The statements of the phased mode for SQLite.

use sqlx::{Pool, Sqlite};

use super::PhasedSql;
use crate::claim::Limits;
use crate::own_transaction::OwnTransaction;
use crate::sql::IdempotencySql;

impl PhasedSql for Sqlite {
    const CLAIM: &'static str = include_str!("../../../sql/sqlite/phased_claim.sql");
    const RECORD: &'static str = include_str!("../../../sql/sqlite/phased_record.sql");
    const RECLAIM: &'static str = include_str!("../../../sql/sqlite/phased_reclaim.sql");
    const TAKE_OVER: &'static str = include_str!("../../../sql/sqlite/phased_take_over.sql");
    const RENEW: &'static str = include_str!("../../../sql/sqlite/phased_renew.sql");
    const SAVE: &'static str = include_str!("../../../sql/sqlite/phased_save.sql");
    const START: &'static str = include_str!("../../../sql/sqlite/phased_start.sql");
    const MAY_START: &'static str = include_str!("../../../sql/sqlite/phased_may_start.sql");
    const FINISH: &'static str = include_str!("../../../sql/sqlite/phased_finish.sql");
    const HOLD: &'static str = include_str!("../../../sql/sqlite/phased_hold.sql");
    const RELEASE: &'static str = include_str!("../../../sql/sqlite/phased_release.sql");
    const LOCK: &'static str = include_str!("../../../sql/sqlite/phased_lock.sql");
    const REOPEN: &'static str = include_str!("../../../sql/sqlite/phased_reopen.sql");
    const SETTLE: &'static str = include_str!("../../../sql/sqlite/phased_settle.sql");
    const FORGET: &'static str = include_str!("../../../sql/sqlite/phased_forget.sql");
    const AUDIT: &'static str = include_str!("../../../sql/sqlite/phased_audit.sql");
    const SWEEP_AUDIT: &'static str = include_str!("../../../sql/sqlite/phased_sweep_audit.sql");
    const UNKNOWN: &'static str = include_str!("../../../sql/sqlite/phased_unknown.sql");
    const ASKABLE: &'static str = include_str!("../../../sql/sqlite/phased_askable.sql");
    const ASK: &'static str = include_str!("../../../sql/sqlite/phased_ask.sql");

    async fn begin_step(pool: &Pool<Self>, limits: &Limits) -> Result<OwnTransaction<Self>, sqlx::Error> {
        Self::begin(pool, limits).await
    }
}
