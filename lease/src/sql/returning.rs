//! What the engines share whose upserts answer with a row.

use std::time::Duration;

use leastlock_core::Statement;

use super::{LeaseSql, Mark, OnceMark, after};
use crate::store::{Claim, milliseconds};
use crate::token::FencingToken;

pub(super) async fn acquire<DB: LeaseSql>(
    connection: &mut DB::Connection,
    statement: &'static str,
    claim: Claim<'_>,
) -> Result<Option<i64>, sqlx::Error> {
    let granted = Statement::new(statement)
        .bind(claim.name.as_str())
        .bind(&claim.nonce.as_bytes()[..])
        .bind(milliseconds(claim.ttl))
        .bind(claim.floor.map_or(0, FencingToken::value))
        .bind(claim.job)
        .bind(after(&claim));
    granted.fetch_optional::<DB>(connection).await?.map(|row| row.int(0)).transpose()
}

pub(super) async fn raise<DB: LeaseSql>(
    connection: &mut DB::Connection,
    statement: &'static str,
    mark: Mark<'_>,
) -> Result<bool, sqlx::Error> {
    let raised = Statement::new(statement).bind(mark.resource).bind(mark.generation).bind(mark.owner);
    Ok(raised.fetch_optional::<DB>(connection).await?.is_some())
}

pub(super) async fn check<DB: LeaseSql>(
    connection: &mut DB::Connection,
    statement: &'static str,
    mark: Mark<'_>,
    idle: Duration,
) -> Result<bool, sqlx::Error> {
    let passed =
        Statement::new(statement).bind(mark.resource).bind(mark.generation).bind(mark.owner).bind(milliseconds(idle));
    Ok(passed.fetch_optional::<DB>(connection).await?.is_some())
}

pub(super) async fn once_mark<DB: LeaseSql>(
    connection: &mut DB::Connection,
    statement: &'static str,
    once: OnceMark<'_>,
    idle: Duration,
) -> Result<bool, sqlx::Error> {
    let mark = Statement::new(statement).bind(once.job).bind(once.period).bind(once.owner).bind(milliseconds(idle));
    Ok(mark.fetch_optional::<DB>(connection).await?.is_some())
}
