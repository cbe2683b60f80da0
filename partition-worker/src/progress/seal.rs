//! Taking a partition over, in two committed steps.

use std::fmt;
use std::pin::pin;
use std::time::Duration;

use leastlock_core::{ErrorClass, Statement, classify};

use super::{Progress, answered, millis};
use crate::partition::{Epoch, TopicId, TopicPartition};
use crate::runs::Runs;
use crate::sql::{Found, WorkerSql};

/// Finished offsets that one statement reads: few, since each is bounded by the seal's time-out.
const PAGE: usize = 5_000;

/// How a seal ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "only a sealed partition may be worked on"]
pub enum Seal {
    /// The partition is this owner's: no earlier owner can commit anything any more.
    Sealed(Sealed),
    /// Another owner has come later. The partition is not this owner's.
    Fenced,
}

/// One attempt at the second step of a seal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "only a sealed partition may be worked on"]
pub enum Guard {
    /// The epoch stands in the guard row.
    Raised(Sealed),
    /// Transactions of earlier owners are still open. Nothing has changed; newcomers of theirs stop at the gate.
    Blocked {
        /// Who was in the way, as far as the engine can tell.
        blockers: Vec<Blocker>,
    },
    /// Another owner has come later.
    Fenced,
}

/// A partition as its new owner finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The epoch of this ownership.
    pub epoch: Epoch,
    /// Everything below is finished. `None`: no owner has fixed yet where the group starts.
    pub next_offset: Option<i64>,
    /// Which topic of that name it is. `None`: nobody has [said](Progress::identify) yet.
    pub topic_id: Option<TopicId>,
    /// The finished offsets from `next_offset` on.
    pub finished: Runs,
    /// Who was in the way at some time.
    pub blockers: Vec<Blocker>,
}

/// A database session that holds up a seal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// The server's id of the session.
    pub pid: i64,
    /// What it is doing, in the server's words, such as `idle in transaction` (MariaDB: `Sleep`).
    pub state: String,
    /// How long its transaction has been open, in milliseconds.
    pub open_ms: i64,
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {} ({}, open for {} ms)", self.pid, self.state, self.open_ms)
    }
}

impl<DB: WorkerSql> Progress<DB> {
    /// Takes a partition over, and waits for as long as it takes: each attempt is bounded, reports who is in the way, and is
    /// followed by the next. It never answers [`Seal::Sealed`] while a transaction of an earlier owner is open.
    ///
    /// # Errors
    /// What the database said, if trying again cannot help.
    ///
    /// # Cancel safety
    /// Dropped half-way, it may have claimed an epoch: earlier owners are fenced then, and the next seal takes a higher one.
    pub async fn seal(&self, partition: &TopicPartition) -> Result<Seal, sqlx::Error> {
        let mut attempt = 0;
        let mut met = Vec::new();
        let mut claimed = None;
        loop {
            let step = match claimed {
                None => self.claim_gate(partition).await.map(|epoch| {
                    claimed = Some(epoch);
                    None
                }),
                Some(epoch) => self.raise_guard(partition, epoch).await.map(Some),
            };
            match step {
                Ok(None) => continue,
                Ok(Some(Guard::Raised(mut sealed))) => {
                    sealed.blockers = met;
                    return Ok(Seal::Sealed(sealed));
                }
                Ok(Some(Guard::Fenced)) => return Ok(Seal::Fenced),
                Ok(Some(Guard::Blocked { blockers })) => add_new(&mut met, blockers),
                Err(error) if classify::<DB>(&error).is_retryable() => {
                    tracing::warn!(%partition, %error, attempt, "the seal of a partition is tried again");
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(self.backoff.delay(attempt)).await;
            attempt += 1;
        }
    }

    /// The first step: claims the next epoch. From its commit on, handlers of earlier epochs that start are fenced.
    ///
    /// # Errors
    /// What the database said, or that it said nothing within [`Timeouts::request`](super::Timeouts::request). An epoch may
    /// have been claimed; claiming again is always safe.
    ///
    /// # Cancel safety
    /// As for an error.
    pub async fn claim_gate(&self, partition: &TopicPartition) -> Result<Epoch, sqlx::Error> {
        self.answered(self.claim(partition)).await
    }

    async fn claim(&self, partition: &TopicPartition) -> Result<Epoch, sqlx::Error> {
        let mut tx = DB::begin_step(&self.pool).await?;
        let epoch = DB::claim_gate(&mut tx, self.place(partition), &self.owner).await?;
        tx.commit().await?;
        Ok(Epoch::new(epoch))
    }

    /// The second step, once: raises the guard row to `epoch`, which [`claim_gate`](Self::claim_gate) answered, waiting for
    /// handlers that are still open, to the seal time-out.
    ///
    /// # Errors
    /// What the database said, or that it said nothing within [`Timeouts::seal`](super::Timeouts::seal) and
    /// [`Timeouts::request`](super::Timeouts::request) together. If only the reply to the commit was lost, the guard is raised,
    /// and the next attempt with this epoch finds it so.
    ///
    /// # Cancel safety
    /// The guard is raised or it is not; another attempt is always safe.
    pub async fn raise_guard(&self, partition: &TopicPartition, epoch: Epoch) -> Result<Guard, sqlx::Error> {
        let within = self.timeouts.seal.saturating_add(self.timeouts.request);
        answered(within, self.raise(partition, epoch)).await
    }

    async fn raise(&self, partition: &TopicPartition, epoch: Epoch) -> Result<Guard, sqlx::Error> {
        let mut tx = match DB::begin_step(&self.pool).await {
            Err(error) if is_wait_over::<DB>(&error) => return Ok(Guard::Blocked { blockers: Vec::new() }),
            begun => begun?,
        };
        let backend = match DB::SEAL_BOUND {
            None => None,
            Some(sql) => {
                let bound = Statement::new(sql).bind(millis(self.timeouts.seal));
                Some(bound.fetch_one::<DB>(&mut tx).await?.int(0)?)
            }
        };
        let mut blockers = Vec::new();
        let raise = DB::raise_guard(&mut tx, self.place(partition), epoch.get(), &self.owner);
        let Found { next_offset, topic_id } = match self.watched(raise, backend, partition, &mut blockers).await {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(Guard::Fenced),
            Err(error) if is_wait_over::<DB>(&error) => return Ok(Guard::Blocked { blockers }),
            Err(error) => return Err(error),
        };
        let finished = match next_offset {
            Some(next_offset) => self.finished(&mut tx, partition, next_offset).await?,
            None => Runs::new(),
        };
        tx.commit().await?;
        let topic_id = topic_id.as_deref().map(TopicId::stored).transpose()?;
        Ok(Guard::Raised(Sealed { epoch, next_offset, topic_id, finished, blockers }))
    }

    /// The finished offsets from this one on.
    async fn finished(
        &self,
        connection: &mut DB::Connection,
        partition: &TopicPartition,
        mut from: i64,
    ) -> Result<Runs, sqlx::Error> {
        let limit = i64::try_from(PAGE).unwrap_or(i64::MAX);
        let mut finished = Runs::new();
        loop {
            let page = self.about(DB::SEAL_FINISHED, partition).bind(from).bind(limit);
            let page = page.fetch_all::<DB>(&mut *connection).await?;
            for row in &page {
                let offset = row.int(0)?;
                finished.insert(offset);
                from = offset + 1;
            }
            if page.len() < PAGE {
                return Ok(finished);
            }
        }
    }

    /// Fixes where a group starts that has no `next_offset` yet; answers whether it is this epoch's to do, and undone.
    ///
    /// # Errors
    /// What the database said, or that it said nothing within [`Timeouts::request`](super::Timeouts::request). If only the
    /// reply to the commit was lost, the start is fixed, and the next seal answers it.
    ///
    /// # Cancel safety
    /// It is fixed or it is not; the next owner finds out.
    pub async fn anchor(&self, partition: &TopicPartition, epoch: Epoch, start: i64) -> Result<bool, sqlx::Error> {
        self.answered(self.fix_start(partition, epoch, start)).await
    }

    async fn fix_start(&self, partition: &TopicPartition, epoch: Epoch, start: i64) -> Result<bool, sqlx::Error> {
        let mut tx = DB::begin_step(&self.pool).await?;
        let anchor = self.about(DB::SEAL_ANCHOR, partition).bind(epoch.get()).bind(start);
        let anchored = anchor.execute::<DB>(&mut tx).await? == 1;
        tx.commit().await?;
        Ok(anchored)
    }

    /// Waits for `raise`, and reports meanwhile who is in the way.
    async fn watched<T>(
        &self,
        raise: impl Future<Output = T>,
        backend: Option<i64>,
        partition: &TopicPartition,
        blockers: &mut Vec<Blocker>,
    ) -> T {
        let mut raise = pin!(raise);
        let (Some(backend), Some(sql)) = (backend, DB::SEAL_BLOCKERS) else {
            return raise.await;
        };
        let look_every = (self.timeouts.seal / 4).clamp(Duration::from_millis(10), Duration::from_secs(1));
        loop {
            if let Ok(raised) = tokio::time::timeout(look_every, &mut raise).await {
                return raised;
            }
            // Bounded, since it needs a second connection, and a pool may be empty; the statement above goes on meanwhile.
            match tokio::time::timeout(look_every, self.blockers(sql, backend)).await {
                Ok(Ok(found)) if !found.is_empty() => {
                    let list = found.iter().map(Blocker::to_string).collect::<Vec<_>>().join(", ");
                    tracing::warn!(%partition, blockers = list, "a seal waits for transactions of an earlier owner");
                    add_new(blockers, found);
                }
                Ok(Ok(_)) | Err(_) => {}
                Ok(Err(error)) => tracing::warn!(%partition, %error, "who holds up a seal could not be found out"),
            }
        }
    }

    async fn blockers(&self, sql: &'static str, backend: i64) -> Result<Vec<Blocker>, sqlx::Error> {
        let mut connection = self.pool.acquire().await?;
        let rows = Statement::new(sql).bind(backend).fetch_all::<DB>(&mut connection).await?;
        let blocker = |row: &leastlock_core::Row<DB>| {
            Ok(Blocker { pid: row.int(0)?, state: row.text(1)?, open_ms: row.optional_int(2)?.unwrap_or(0) })
        };
        rows.iter().map(blocker).collect()
    }
}

/// Of several reports of one session, the latest stays.
fn add_new(met: &mut Vec<Blocker>, found: Vec<Blocker>) {
    for blocker in found {
        met.retain(|known| known.pid != blocker.pid);
        met.push(blocker);
    }
}

pub(super) fn is_wait_over<DB: WorkerSql>(error: &sqlx::Error) -> bool {
    matches!(classify::<DB>(error), ErrorClass::StatementTimeout | ErrorClass::LockTimeout | ErrorClass::Busy)
}
