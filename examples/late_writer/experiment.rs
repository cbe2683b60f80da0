//! B: takes over while A is stopped, and what stands there afterwards.

use std::time::Duration;

use leastlock::core::{Statement, begin};
use leastlock::lease::{self, Acquire, Error, Fence, FencingToken, Hold, Leases, LockName, SqlLeaseStore};
use sqlx::Pool;

use crate::args::Args;
use crate::child::Holder;
use crate::engine::{BoxError, Engine};

/// What a run with no mistake prints.
pub(crate) const EXPECTED: [&str; 3] =
    ["owner comparison: B lease survives", "unprotected resource: late A result", "fenced resource: B result"];

/// How long B's lease lasts: longer than the rest of the round.
const TTL: Duration = Duration::from_mins(1);

const CREATE: &str = "CREATE TABLE IF NOT EXISTS late_writer_example \
    (resource VARCHAR(20) PRIMARY KEY, result VARCHAR(40) NOT NULL)";
const EMPTY: &str = "DELETE FROM late_writer_example";
const FILL: &str = "INSERT INTO late_writer_example VALUES ('unprotected', 'no result'), ('fenced', 'no result')";
const B_TO_UNPROTECTED: &str = "UPDATE late_writer_example SET result = 'B result' WHERE resource = 'unprotected'";
const B_TO_FENCED: &str = "UPDATE late_writer_example SET result = 'B result' WHERE resource = 'fenced'";
const UNPROTECTED: &str = "SELECT result FROM late_writer_example WHERE resource = 'unprotected'";
const FENCED: &str = "SELECT result FROM late_writer_example WHERE resource = 'fenced'";

pub(crate) fn lock() -> Result<LockName, Error> {
    LockName::new("late-writer-example:report")
}

pub(crate) fn fence() -> Result<Fence, Error> {
    Fence::new("late-writer-example:report")
}

pub(crate) struct Experiment<'a, DB: Engine> {
    pool: &'a Pool<DB>,
    ttl: Duration,
    holder: Vec<String>,
}

impl<'a, DB: Engine> Experiment<'a, DB> {
    pub(crate) async fn new(pool: &'a Pool<DB>, url: &str, args: &Args) -> Result<Self, BoxError> {
        lease::MIGRATIONS.run(pool).await?;
        Statement::new(CREATE).execute::<DB>(&mut *pool.acquire().await?).await?;
        Ok(Self { pool, ttl: args.ttl(), holder: args.of_the_holder(url) })
    }

    /// A is stopped beyond its TTL, B takes over and writes, A goes on. Answers three lines.
    pub(crate) async fn round(&self) -> Result<[String; 3], BoxError> {
        let mut tx = begin(self.pool).await?;
        for statement in [EMPTY, FILL] {
            Statement::new(statement).execute::<DB>(&mut tx).await?;
        }
        tx.commit().await?;

        let mut holder = Holder::start(&self.holder)?;
        holder.says("holding").await?;
        holder.stop().await?;

        let leases = Leases::new(SqlLeaseStore::new(self.pool));
        // A's TTL is over when B gets it: the store decides, and B only asks.
        let patience = Acquire::waiting(self.ttl + Duration::from_secs(30));
        let lease = leases.acquire_with(&lock()?, Hold::renewed(TTL), patience).await?;
        let permit = lease.permit()?;
        fence()?.seal(self.pool, &permit).await?;
        Statement::new(B_TO_UNPROTECTED).execute::<DB>(&mut *self.pool.acquire().await?).await?;
        let mut tx = fence()?.begin(self.pool, &permit).await?;
        Statement::new(B_TO_FENCED).execute::<DB>(&mut tx).await?;
        tx.commit().await?;

        holder.go_on().await?;
        let survives = if self.is_held_by(lease.token()).await? { "B lease survives" } else { "B lease is gone" };
        let (unprotected, fenced) = (self.result(UNPROTECTED).await?, self.result(FENCED).await?);
        let _ = lease.release().await;
        Ok([
            format!("owner comparison: {survives}"),
            format!("unprotected resource: {unprotected}"),
            format!("fenced resource: {fenced}"),
        ])
    }

    /// Asks as a third one would.
    async fn is_held_by(&self, token: FencingToken) -> Result<bool, BoxError> {
        let leases = Leases::new(SqlLeaseStore::new(self.pool));
        match leases.acquire_with(&lock()?, Hold::fixed(TTL), Acquire::fail_fast()).await {
            Err(Error::Held { holder, .. }) => Ok(holder.token == Some(token)),
            Ok(third) => {
                let _ = third.release().await;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn result(&self, query: &'static str) -> Result<String, BoxError> {
        let row = Statement::new(query).fetch_one::<DB>(&mut *self.pool.acquire().await?).await?;
        Ok(row.text(0)?)
    }
}
