//! The transaction of a first request, and its completion.

use std::fmt;
use std::marker::PhantomData;

use leastlock_core::Statement;
use sqlx::Transaction;

use crate::cipher::Sealing;
use crate::error::Error;
use crate::key::Key;
use crate::measure::UnitEnd;
use crate::own_transaction::OwnTransaction;
use crate::response::Response;
use crate::sql::IdempotencySql;

/// A first request's unit of work: it owns the transaction that holds the claim.
///
/// Run the effects on [`tx`](Self::tx), then [`complete`](Self::complete). Dropping it rolls everything back, the claim
/// included, so the key is free again and a waiting duplicate runs as first.
#[must_use = "dropping a unit rolls its effects back and frees the key"]
pub struct Unit<DB: IdempotencySql, R> {
    tx: OwnTransaction<DB>,
    claim: Claim<R>,
    end: UnitEnd,
}

impl<DB: IdempotencySql, R: Response> Unit<DB, R> {
    pub(crate) fn new(tx: OwnTransaction<DB>, claim: Claim<R>) -> Self {
        Self { tx, claim, end: UnitEnd::default() }
    }

    /// The transaction to run the effects in.
    pub fn tx(&mut self) -> &mut Transaction<'static, DB> {
        &mut self.tx
    }

    /// Stores the answer, commits, and gives the answer back. From then on every repeat is answered with it.
    ///
    /// What is stored is what is completed, whatever it means: a refusal (`Err(…)`, a 4xx) is an answer like any other, and a
    /// repeat gets it too. A failure that a repeat may overcome is [`release`](Self::release)d instead.
    ///
    /// # Errors
    /// [`Error::CommitUnknown`] when the reply of the commit was lost. [`Error::TransactionEnded`] if an error in the transaction had
    /// ended it and was overlooked (MariaDB, SQLite): the answer is not stored, what ran before that error is gone, and what ran after
    /// it was committed statement by statement. After any other error nothing was kept.
    ///
    /// # Cancel safety
    /// Dropped before the commit was sent, nothing is kept; dropped while it is under way, the outcome is unknown to the
    /// caller but never half: begin again with the same key to learn it.
    pub async fn complete(self, response: R) -> Result<R, Error> {
        let Self { tx, claim, end } = self;
        end.completed(Self::store(tx, claim, response).await)
    }

    async fn store(mut tx: OwnTransaction<DB>, claim: Claim<R>, response: R) -> Result<R, Error> {
        DB::prove(&mut tx).await.map_err(Error::proof::<DB>)?;
        let response = claim.complete(&mut tx, response).await?;
        tx.commit().await.map_err(Error::commit::<DB>)?;
        Ok(response)
    }

    /// Stores a reference to the answer instead of the answer, commits, and gives the answer back. A repeat gets the reference
    /// and renders from it what it may show: for an answer that must not be stored (a secret that is shown once) or is too large
    /// to be.
    ///
    /// ```
    /// use leastlock_idempotency::{Begin, Fingerprint, Key, Keys, Scope};
    /// # use sqlx::SqlitePool;
    ///
    /// #[derive(Debug, PartialEq)]
    /// struct Token {
    ///     id: i64,
    ///     secret: Option<String>, // shown once
    /// }
    ///
    /// async fn issue(pool: &SqlitePool, keys: &Keys, key: &Key) -> Result<Token, Box<dyn std::error::Error>> {
    ///     let fingerprint = Fingerprint::request("POST", "/tokens", "").bytes(b"");
    ///     match keys.begin(pool, key, &fingerprint).await? {
    ///         Begin::First(mut unit) => {
    ///             let secret = "hush".to_owned();
    ///             let id: i64 = sqlx::query_scalar("INSERT INTO token (digest) VALUES (hex($1)) RETURNING id")
    ///                 .bind(&secret)
    ///                 .fetch_one(&mut **unit.tx())
    ///                 .await?;
    ///             Ok(unit.complete_reference(id, Token { id, secret: Some(secret) }).await?)
    ///         }
    ///         Begin::Replay(id) => Ok(Token { id, secret: None }), // rendered again, without what was not stored
    ///         other => Err(format!("{other:?}").into()),
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    /// # leastlock_idempotency::MIGRATIONS.run(&pool).await?;
    /// # sqlx::raw_sql("CREATE TABLE token (id INTEGER PRIMARY KEY, digest TEXT)").execute(&pool).await?;
    /// # let key = Key::new(&Scope::of_operation("issue-token")?, "8f14e45f")?;
    /// # let keys = Keys::default();
    /// assert_eq!(issue(&pool, &keys, &key).await?, Token { id: 1, secret: Some("hush".to_owned()) });
    /// assert_eq!(issue(&pool, &keys, &key).await?, Token { id: 1, secret: None });
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`complete`](Self::complete).
    ///
    /// # Cancel safety
    /// As [`complete`](Self::complete).
    pub async fn complete_reference<T>(self, reference: R, answer: T) -> Result<T, Error> {
        self.complete(reference).await.map(|_| answer)
    }

    /// Rolls back: nothing happened, and the key is free. Like dropping the unit, but done when it returns.
    ///
    /// # Cancel safety
    /// The transaction is rolled back all the same.
    pub async fn release(self) -> Result<(), Error> {
        let Self { tx, end, .. } = self;
        end.released();
        tx.roll_back().await.map_err(Error::database::<DB>)
    }
}

impl<DB: IdempotencySql, R> fmt::Debug for Unit<DB, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Unit").field("claim", &self.claim).finish_non_exhaustive()
    }
}

/// A key claimed in the caller's own transaction by [`Keys::begin_in`](crate::Keys::begin_in).
///
/// Complete it before committing. A claim committed without an answer is never run again and never answered:
/// [`Error::CommittedWithoutAnswer`].
#[must_use = "a claim must be completed before its transaction commits"]
pub struct Claim<R> {
    key: Key,
    generation: i64,
    max_response_bytes: usize,
    sealing: Sealing,
    response: PhantomData<fn(R)>,
}

impl<R> Claim<R> {
    pub(crate) fn new(key: Key, generation: i64, max_response_bytes: usize, sealing: Sealing) -> Self {
        Self { key, generation, max_response_bytes, sealing, response: PhantomData }
    }
}

impl<R: Response> Claim<R> {
    /// Stores the answer in the transaction that made the claim, and gives it back. It counts once the caller commits.
    ///
    /// # Errors
    /// After any error the transaction is to be rolled back. [`Error::ClaimGone`] also says that the transaction may have ended before,
    /// by an error that was overlooked: what ran after that was committed statement by statement (MariaDB, SQLite).
    ///
    /// # Cancel safety
    /// Dropped half-way, the transaction must be rolled back.
    pub async fn complete<DB: IdempotencySql>(self, tx: &mut Transaction<'_, DB>, response: R) -> Result<R, Error> {
        let parts = response.to_parts().map_err(|source| Error::Serialize { source })?;
        if parts.bytes() > self.max_response_bytes {
            return Err(Error::ResponseTooLarge { bytes: parts.bytes(), limit: self.max_response_bytes });
        }
        let parts = self.sealing.seal(&self.key, parts)?;
        let completed = parts
            .bind(Statement::new(DB::COMPLETE))
            .bind(self.key.scope().as_str())
            .bind(self.key.as_str())
            .bind(self.generation)
            .execute::<DB>(&mut *tx)
            .await
            .map_err(Error::database::<DB>)?;
        if completed == 1 { Ok(response) } else { Err(Error::ClaimGone) }
    }
}

impl<R> fmt::Debug for Claim<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Claim").field("generation", &self.generation).finish_non_exhaustive()
    }
}
