//! The statements of the phased mode for PostgreSQL.

use sqlx::{Pool, Postgres};

use super::PhasedSql;
use crate::claim::Limits;
use crate::own_transaction::OwnTransaction;

impl PhasedSql for Postgres {
    const CLAIM: &'static str = include_str!("../../../sql/postgres/phased_claim.sql");
    const RECORD: &'static str = include_str!("../../../sql/postgres/phased_record.sql");
    const RECLAIM: &'static str = include_str!("../../../sql/postgres/phased_reclaim.sql");
    const TAKE_OVER: &'static str = include_str!("../../../sql/postgres/phased_take_over.sql");
    const RENEW: &'static str = include_str!("../../../sql/postgres/phased_renew.sql");
    const SAVE: &'static str = include_str!("../../../sql/postgres/phased_save.sql");
    const START: &'static str = include_str!("../../../sql/postgres/phased_start.sql");
    const MAY_START: &'static str = include_str!("../../../sql/postgres/phased_may_start.sql");
    const FINISH: &'static str = include_str!("../../../sql/postgres/phased_finish.sql");
    const HOLD: &'static str = include_str!("../../../sql/postgres/phased_hold.sql");
    const RELEASE: &'static str = include_str!("../../../sql/postgres/phased_release.sql");
    const LOCK: &'static str = include_str!("../../../sql/postgres/phased_lock.sql");
    const REOPEN: &'static str = include_str!("../../../sql/postgres/phased_reopen.sql");
    const SETTLE: &'static str = include_str!("../../../sql/postgres/phased_settle.sql");
    const FORGET: &'static str = include_str!("../../../sql/postgres/phased_forget.sql");
    const AUDIT: &'static str = include_str!("../../../sql/postgres/phased_audit.sql");
    const SWEEP_AUDIT: &'static str = include_str!("../../../sql/postgres/phased_sweep_audit.sql");
    const UNKNOWN: &'static str = include_str!("../../../sql/postgres/phased_unknown.sql");
    const ASKABLE: &'static str = include_str!("../../../sql/postgres/phased_askable.sql");
    const ASK: &'static str = include_str!("../../../sql/postgres/phased_ask.sql");

    async fn begin_step(pool: &Pool<Self>, _: &Limits) -> Result<OwnTransaction<Self>, sqlx::Error> {
        leastlock_core::begin(pool).await.map(OwnTransaction::new)
    }
}
