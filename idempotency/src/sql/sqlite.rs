//! The statements for SQLite.

use leastlock_core::Statement;
use sqlx::Sqlite;

use super::{IdempotencySql, transaction_methods};
use crate::claim::{Answer, Existing, Request};

const CLAIM: &str = include_str!("../../sql/sqlite/claim.sql");
const EXISTING: &str = include_str!("../../sql/sqlite/existing.sql");
const CLAIM_EXPIRED: &str = include_str!("../../sql/sqlite/claim_expired.sql");
const SWEEP: &str = include_str!("../../sql/sqlite/sweep.sql");

impl IdempotencySql for Sqlite {
    const COMPLETE: &'static str = include_str!("../../sql/sqlite/complete.sql");

    transaction_methods!();

    async fn claim(connection: &mut Self::Connection, request: &Request<'_>) -> Result<Answer, sqlx::Error> {
        if let Some(row) = request.bind(Statement::new(CLAIM)).fetch_optional::<Self>(connection).await? {
            return Ok(Answer::Claimed { generation: row.int(0)? });
        }
        let existing = Statement::new(EXISTING).bind(request.scope).bind(request.key);
        let Some(row) = existing.fetch_optional::<Self>(connection).await? else { return Ok(Answer::NotVisible) };
        Ok(Answer::Exists(Existing::read(&row, 0)?))
    }

    async fn claim_expired(
        connection: &mut Self::Connection,
        request: &Request<'_>,
    ) -> Result<Option<i64>, sqlx::Error> {
        let row = request.bind(Statement::new(CLAIM_EXPIRED)).fetch_optional::<Self>(connection).await?;
        row.map(|row| row.int(0)).transpose()
    }
}
