//! The database of all contests: rows with stock, records of keys, and whether both are as they have to be.

use std::ops::RangeInclusive;
use std::sync::Arc;

use anyhow::ensure;
use leastlock_core::Statement;
use leastlock_idempotency::MIGRATIONS;
use leastlock_testkit::TestDatabase;
use sqlx::Pool;

use super::KeyEngine;
use super::order::ROWS;
use crate::engine::open_pool;

const LOWEST: &str = "SELECT min(units) FROM stock";
const RECORDS: &str = "SELECT count(*) FROM leastlock_idempotency";
const ANSWERED: &str =
    "SELECT count(*) FROM leastlock_idempotency WHERE state = 'completed' AND response_body IS NOT NULL";
const KEEP_ANSWERS: [&str; 2] = ["DROP TABLE IF EXISTS kept_answer", include_str!("../../sql/keep_answers.sql")];
const RESTORE_ANSWERS: &str = include_str!("../../sql/restore_answers.sql");

/// Units of each row that are more than a turn can take.
const AMPLE: i64 = 1_000_000_000;

/// Where the contests take place.
#[derive(Debug)]
pub(super) struct Site<DB: KeyEngine> {
    pub(super) database: Arc<TestDatabase<DB>>,
    /// The most connections of a pool.
    pub(super) limit: u32,
}

impl<DB: KeyEngine> Site<DB> {
    /// A database with all tables.
    pub(super) async fn create() -> anyhow::Result<Self> {
        let database = TestDatabase::<DB>::create().await.with(&MIGRATIONS).await;
        database.execute(DB::TABLES[0]).await;
        let limit = DB::limit(&database).await?;
        Ok(Self { database: Arc::new(database), limit })
    }

    /// The same place, for another contest.
    pub(super) fn share(&self) -> Self {
        Self { database: Arc::clone(&self.database), limit: self.limit }
    }

    pub(super) async fn pool(&self, clients: u32) -> anyhow::Result<Pool<DB>> {
        open_pool(&self.database.url, clients, self.limit).await
    }

    /// Full rows and no records.
    pub(super) async fn reopen(&self) -> anyhow::Result<()> {
        self.database.execute(DB::EMPTY_STOCK).await;
        self.database.execute(DB::EMPTY_KEYS).await;
        let open = Statement::new(DB::OPEN).bind(i64::try_from(ROWS)?).bind(AMPLE);
        open.execute::<DB>(&mut *self.database.pool.acquire().await?).await?;
        Ok(())
    }

    /// Keeps the records that there are for [`restore_answers`](Self::restore_answers): to make them anew before every turn
    /// would take longer than the turn.
    pub(super) async fn keep_answers(&self) {
        for sql in KEEP_ANSWERS {
            self.database.execute(sql).await;
        }
    }

    /// Puts the records back that were kept.
    pub(super) async fn restore_answers(&self) {
        self.database.execute(RESTORE_ANSWERS).await;
    }

    /// How many units were taken.
    pub(super) async fn taken(&self) -> anyhow::Result<u64> {
        ensure!(self.database.int(LOWEST).await > 0, "a row was sold out: the load was not as planned");
        let opened = i64::try_from(ROWS)? * AMPLE;
        Ok(u64::try_from(opened - self.database.int(DB::SUM).await)?)
    }

    /// Whether so many units were taken, and so many requests have a record, each with its answer.
    pub(super) async fn holds(&self, units: RangeInclusive<u64>, records: RangeInclusive<u64>) -> anyhow::Result<()> {
        let taken = self.taken().await?;
        ensure!(units.contains(&taken), "{taken} units are gone, where {units:?} are right");
        let found = u64::try_from(self.database.int(RECORDS).await)?;
        ensure!(records.contains(&found), "there are {found} records, where {records:?} are right");
        let answered = u64::try_from(self.database.int(ANSWERED).await)?;
        ensure!(answered == found, "of {found} records only {answered} have an answer");
        Ok(())
    }
}
