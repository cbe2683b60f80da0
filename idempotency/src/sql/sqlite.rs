//! The statements for SQLite.

use leastlock_core::Statement;
use sqlx::{Pool, Sqlite, Transaction};

use super::{IdempotencySql, transaction_methods};
use crate::claim::{Answer, Existing, Limits, Request};
use crate::own_transaction::OwnTransaction;

const CLAIM: &str = include_str!("../../sql/sqlite/claim.sql");
const EXISTING: &str = include_str!("../../sql/sqlite/existing.sql");
const CLAIM_EXPIRED: &str = include_str!("../../sql/sqlite/claim_expired.sql");
const MARK: &str = include_str!("../../sql/sqlite/mark.sql");
const PROVE: &str = include_str!("../../sql/sqlite/prove.sql");
const RESUME: &str = include_str!("../../sql/sqlite/resume.sql");
const SWEEP: &str = include_str!("../../sql/sqlite/sweep.sql");

impl IdempotencySql for Sqlite {
    const COMPLETE: &'static str = include_str!("../../sql/sqlite/complete.sql");

    transaction_methods!();

    async fn begin(pool: &Pool<Self>, _: &Limits) -> Result<OwnTransaction<Self>, sqlx::Error> {
        let mut tx = OwnTransaction::new(leastlock_core::begin(pool).await?);
        sqlx::raw_sql(MARK).execute(&mut **tx).await?;
        Ok(tx)
    }

    /// `INSERT OR ROLLBACK`, `RAISE(ROLLBACK)` and a full disk end the transaction, with the savepoint, and sqlx does not
    /// notice ("ON CONFLICT clause" and "Result and Error Codes" of SQLite's manual).
    async fn prove(connection: &mut Self::Connection) -> Result<(), sqlx::Error> {
        let proved = sqlx::raw_sql(PROVE).execute(&mut *connection).await;
        if proved.is_err() {
            // sqlx goes on counting a transaction, and would never again begin one on this connection: here is one to roll back.
            let _ = sqlx::raw_sql(RESUME).execute(connection).await;
        }
        proved.map(|_| ())
    }

    /// In a task, because it proves first: see [`prove`](Self::prove) for what becomes of the connection otherwise.
    fn abandon(tx: Transaction<'static, Self>) {
        // Without a runtime sqlx cannot give a connection back to its pool either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let mut tx = tx;
                let _ = Self::prove(&mut tx).await;
                let _ = tx.rollback().await;
            });
        }
    }

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
