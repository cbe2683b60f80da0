//! One attempt after the other, with the limits.

use std::fmt;
use std::marker::PhantomData;

use leastlock_core::{Dialect, begin, begin_with};
use sqlx::Pool;
use tokio::time::{Instant, sleep};

use super::attempt::{Attempt, Committed};
use super::outcome::{MayConflict, RetryError};
use super::{IN_UNIT, Retry};
use crate::error::Error;
use crate::measure::{self, Limit, UnitOfWork};

/// The attempts of one unit of work, made by [`Retry::start`].
#[must_use = "nothing is attempted until `next` is called"]
pub struct Attempts<DB: Dialect, E> {
    retry: Retry,
    pool: Pool<DB>,
    started: Option<Instant>,
    made: u32,
    measured: UnitOfWork,
    error: PhantomData<fn() -> E>,
}

impl<DB: Dialect, E: MayConflict<DB> + From<Error>> Attempts<DB, E> {
    pub(super) fn new(retry: Retry, pool: Pool<DB>) -> Self {
        Self { retry, pool, started: None, made: 0, measured: UnitOfWork::default(), error: PhantomData }
    }

    /// Begins the next attempt, after a wait if it is not the first. A `BEGIN` that meets a conflict (SQLite's write lock)
    /// counts as an attempt.
    ///
    /// # Errors
    /// [`RetryError::Nested`]; [`RetryError::Failed`] if no transaction can be had; [`RetryError::Exhausted`].
    ///
    /// # Cancel safety
    /// Dropped, no attempt is open.
    pub async fn next(&mut self) -> Result<Attempt<DB>, RetryError<E>> {
        if IN_UNIT.try_with(|()| ()).is_ok() {
            return Err(RetryError::Nested);
        }
        loop {
            self.wait().await;
            self.made = self.made.saturating_add(1);
            self.measured.attempted();
            let begun = match self.retry.begin {
                None => begin(&self.pool).await,
                Some(statement) => begin_with(&self.pool, statement).await,
            };
            match begun {
                Ok(tx) => return Ok(Attempt::new(tx, self.made)),
                Err(error) => self.go_on_after(E::from(Error::database::<DB>(error)))?,
            }
        }
    }

    /// Judges what became of an attempt: `Some` with its value if it committed, `None` if another one is to be made.
    ///
    /// # Errors
    /// [`RetryError::Failed`] with an error that is no conflict; [`RetryError::Exhausted`] with the conflict, when a limit is
    /// reached.
    pub fn settle<T>(&mut self, outcome: Result<Committed<T>, E>) -> Result<Option<T>, RetryError<E>> {
        match outcome {
            Ok(Committed(value)) => {
                self.measured.committed();
                Ok(Some(value))
            }
            Err(error) => self.go_on_after(error).map(|()| None),
        }
    }

    async fn wait(&mut self) {
        let started = *self.started.get_or_insert_with(Instant::now);
        if let Some(retries) = self.made.checked_sub(1) {
            let left = self.retry.within.saturating_sub(started.elapsed());
            sleep(self.retry.backoff.delay(retries).min(left)).await;
        }
    }

    fn go_on_after(&mut self, error: E) -> Result<(), RetryError<E>> {
        let Some(class) = error.conflict() else {
            self.measured.failed();
            return Err(RetryError::Failed(error));
        };
        let elapsed = self.started.map(|started| started.elapsed()).unwrap_or_default();
        let limit = if self.made >= self.retry.attempts {
            Limit::Attempts
        } else if elapsed >= self.retry.within {
            Limit::Time
        } else {
            measure::unit_retried(class);
            return Ok(());
        };
        self.measured.exhausted(limit);
        Err(RetryError::Exhausted { class, attempts: self.made, elapsed, last: error })
    }
}

impl<DB: Dialect, E> fmt::Debug for Attempts<DB, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts").field("retry", &self.retry).field("made", &self.made).finish_non_exhaustive()
    }
}
