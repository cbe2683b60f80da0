//! The statements for PostgreSQL.

use leastlock_core::Statement;
use sqlx::{Pool, Postgres, Transaction};

use super::{IdempotencySql, transaction_methods};
use crate::claim::{Answer, Existing, Limits, Request};
use crate::own_transaction::OwnTransaction;

const BEGIN: &str = include_str!("../../sql/postgres/begin.sql");
const CLAIM: &str = include_str!("../../sql/postgres/claim.sql");
const CLAIM_EXPIRED: &str = include_str!("../../sql/postgres/claim_expired.sql");
const SWEEP: &str = include_str!("../../sql/postgres/sweep.sql");

impl IdempotencySql for Postgres {
    const COMPLETE: &'static str = include_str!("../../sql/postgres/complete.sql");

    transaction_methods!();

    async fn begin(pool: &Pool<Self>, _: &Limits) -> Result<OwnTransaction<Self>, sqlx::Error> {
        leastlock_core::begin_with(pool, BEGIN).await.map(OwnTransaction::new)
    }

    /// An aborted transaction refuses every statement by itself.
    async fn prove(_: &mut Self::Connection) -> Result<(), sqlx::Error> {
        Ok(())
    }

    fn abandon(tx: Transaction<'static, Self>) {
        drop(tx);
    }

    async fn claim(connection: &mut Self::Connection, request: &Request<'_>) -> Result<Answer, sqlx::Error> {
        // Time-outs are text in PostgreSQL, and 0 would mean none.
        let wait = request.wait_ms.max(1).to_string();
        let row = request
            .bind(Statement::new(CLAIM))
            .bind(&wait)
            .bind(request.idle_ms.max(1))
            .bind(i64::from(request.joins))
            .fetch_one::<Self>(connection)
            .await?;
        if let Some(generation) = row.optional_int(0)? {
            return Ok(Answer::Claimed { generation });
        }
        if row.optional_text(1)?.is_none() {
            return Ok(Answer::NotVisible);
        }
        Ok(Answer::Exists(Existing::read(&row, 1)?))
    }

    async fn claim_expired(
        connection: &mut Self::Connection,
        request: &Request<'_>,
    ) -> Result<Option<i64>, sqlx::Error> {
        let wait = request.wait_ms.max(1).to_string();
        let statement = request
            .bind(Statement::new(CLAIM_EXPIRED))
            .bind(&wait)
            .bind(request.idle_ms.max(1))
            .bind(i64::from(request.joins));
        statement.fetch_one::<Self>(connection).await?.optional_int(0)
    }
}
