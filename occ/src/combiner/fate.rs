//! How a transaction ended whose reply was lost.

use std::time::Duration;

use leastlock_core::{Backoff, Statement};
use sqlx::Pool;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::sql::CombinerSql;

/// Between two looks.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// What it wrote lasts.
    Committed,
    /// It wrote nothing, and never will.
    Aborted,
    /// Nothing definite could be read.
    Unknown,
}

/// Asks until something definite is known, at most for `limit`.
pub(super) async fn of<DB: CombinerSql>(
    pool: &Pool<DB>,
    transaction: Option<&str>,
    limit: Duration,
    halt: &CancellationToken,
) -> Fate {
    let (Some(ask), Some(transaction)) = (DB::FATE, transaction) else { return Fate::Unknown };
    let deadline = Instant::now() + limit;
    let asking = async {
        for attempt in 0_u32.. {
            // An error tells nothing: the server may be about to come back.
            match look::<DB>(pool, ask, transaction).await.ok().flatten().as_deref() {
                Some("committed") => return Fate::Committed,
                Some("aborted") => return Fate::Aborted,
                _ => tokio::time::sleep(PAUSES.delay(attempt)).await,
            }
        }
        Fate::Unknown
    };
    let asked = halt.run_until_cancelled(tokio::time::timeout_at(deadline, asking)).await;
    asked.and_then(Result::ok).unwrap_or(Fate::Unknown)
}

async fn look<DB: CombinerSql>(
    pool: &Pool<DB>,
    ask: &'static str,
    transaction: &str,
) -> Result<Option<String>, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    Statement::new(ask).bind(transaction).fetch_one::<DB>(&mut connection).await?.optional_text(0)
}
