//! The ownership of one key, shared by its run and the renewal of its lease.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use leastlock_core::{Backoff, Statement};
use sqlx::Pool;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::key::Key;
use crate::measure::RunEnd;
use crate::phased::bounded::bounded;
use crate::phased::record::{Record, State, millis};
use crate::phased::settings::Phased;
use crate::phased::sql::PhasedSql;

/// 128 random bits that name one claim: a number alone would not do, since the record of a released key begins anew.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nonce([u8; 16]);

impl Nonce {
    pub(crate) fn random() -> Result<Self, Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|source| Error::Randomness { source })?;
        Ok(Self(bytes))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What is fixed at the claim, and until when the client may believe in it.
///
/// No promise rests on the client's clock: every write has generation and owner in its condition.
pub(crate) struct Owner<DB: PhasedSql> {
    pub(crate) pool: Pool<DB>,
    pub(crate) key: Key,
    pub(crate) generation: i64,
    pub(crate) nonce: Nonce,
    pub(crate) settings: Phased,
    deadline: Mutex<Instant>,
    over: CancellationToken,
    end: RunEnd,
}

impl<DB: PhasedSql> Owner<DB> {
    pub(crate) fn new(
        pool: Pool<DB>,
        key: Key,
        generation: i64,
        nonce: Nonce,
        settings: Phased,
        sent: Instant,
    ) -> Self {
        let deadline = Mutex::new(sent + settings.validity());
        Self {
            pool,
            key,
            generation,
            nonce,
            settings,
            deadline,
            over: CancellationToken::new(),
            end: RunEnd::default(),
        }
    }

    /// Binds what every write has in its condition.
    pub(crate) fn fence<'a>(&'a self, statement: Statement<'a>) -> Statement<'a> {
        statement
            .bind(self.key.scope().as_str())
            .bind(self.key.as_str())
            .bind(self.generation)
            .bind(self.nonce.as_bytes())
    }

    pub(crate) fn lease_ms(&self) -> i64 {
        millis(self.settings.lease)
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.deadline().saturating_duration_since(Instant::now())
    }

    /// Cancelled once the key is known to be somebody else's, or done with.
    pub(crate) fn over(&self) -> &CancellationToken {
        &self.over
    }

    /// A write that was sent then has been confirmed, and has set the lease anew.
    pub(crate) fn confirmed(&self, sent: Instant) {
        let mut deadline = self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        *deadline = (*deadline).max(sent + self.settings.validity());
    }

    /// The key is somebody else's.
    pub(crate) fn superseded(&self) -> Error {
        self.end.ended("superseded");
        self.over.cancel();
        Error::Superseded
    }

    /// Sets the lease anew, once. `false` if the key is somebody else's.
    pub(crate) async fn renew_once(&self) -> Result<bool, Error> {
        let sent = Instant::now();
        let renew = self.fence(Statement::new(DB::RENEW).bind(self.lease_ms()));
        let renewed = bounded::<DB, _>(self.settings.lease / 6, self.execute(renew)).await? == 1;
        if renewed {
            self.confirmed(sent);
        }
        Ok(renewed)
    }

    /// Runs a fenced write that may be repeated, for as long as the lease can be had again by repeating it. Answers the number
    /// of rows; [`Ending::MayHaveLanded`] if there was none and an earlier, unanswered try may be why.
    pub(crate) async fn write(&self, statement: Statement<'_>) -> Result<Ending, Error> {
        let backoff = Backoff::default();
        let give_up = Instant::now() + self.settings.lease;
        let mut attempt = 0;
        loop {
            let sent = Instant::now();
            match bounded::<DB, _>(self.settings.statement_limit(), self.execute(statement.clone())).await {
                Ok(0) if attempt == 0 => return Ok(Ending::Refused),
                Ok(0) => return Ok(Ending::MayHaveLanded),
                Ok(_) => {
                    self.confirmed(sent);
                    return Ok(Ending::Applied);
                }
                Err(error) if error.is_retryable() && Instant::now() < give_up => {
                    tokio::time::sleep(backoff.delay(attempt)).await;
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A write that ends the ownership. A try whose reply was lost is recognised by the record that it left.
    pub(crate) async fn end(&self, statement: Statement<'_>, ended: Option<State>) -> Result<(), Error> {
        let applied = match self.write(statement).await? {
            Ending::Applied => true,
            Ending::Refused => false,
            Ending::MayHaveLanded => match (self.record().await?, ended) {
                (Some(record), Some(state)) => self.is_mine(&record) && record.state == state,
                (None, None) => true,
                _ => false,
            },
        };
        if applied {
            self.end.ended(match ended {
                Some(State::Completed) => "completed",
                Some(_) => "held",
                None => "released",
            });
            self.over.cancel();
            Ok(())
        } else {
            Err(self.superseded())
        }
    }

    pub(crate) fn is_mine(&self, record: &Record) -> bool {
        record.generation == self.generation && record.owner.as_deref() == Some(self.nonce.as_bytes())
    }

    pub(crate) async fn record(&self) -> Result<Option<Record>, Error> {
        let read = async {
            let mut connection = self.pool.acquire().await.map_err(Error::database::<DB>)?;
            Record::read::<DB>(&mut connection, &self.key).await.map_err(Error::database::<DB>)
        };
        bounded::<DB, _>(self.settings.statement_limit(), read).await
    }

    async fn execute(&self, statement: Statement<'_>) -> Result<u64, Error> {
        let mut connection = self.pool.acquire().await.map_err(Error::database::<DB>)?;
        statement.execute::<DB>(&mut connection).await.map_err(Error::database::<DB>)
    }

    fn deadline(&self) -> Instant {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a fenced write came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Applied,
    Refused,
    /// It changed nothing, after a try that was not answered.
    MayHaveLanded,
}

impl<DB: PhasedSql> fmt::Debug for Owner<DB> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Owner")
            .field("generation", &self.generation)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
