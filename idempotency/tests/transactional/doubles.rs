//! Hand-written keepers, each with one mistake that has been made in public.

use leastlock_core::{ErrorClass, Statement, classify};
use leastlock_testkit::TestEngine;
use leastlock_testkit::database::sql;
use sqlx::Pool;

use crate::keeper::{Call, Handler, Keeper, Told, fingerprint, finish, insert_effect};

/// The mistake that a [`Naive`] keeper makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// Looks first and inserts after the effect: two at once both run.
    LooksThenInserts,
    /// Computes the fingerprint again at completion, from what the handler made of its input.
    FingerprintsAtCompletion,
    /// Deletes the record by its key whenever a request ends with an error, its own record or not.
    DeletesOnError,
    /// Compares fingerprints of completed records only.
    TrustsWhoeverWaits,
    /// Stores the completed record without its fingerprint.
    DropsTheFingerprint,
    /// Keeps records by key alone.
    ForgetsTheScope,
    /// Takes "no row inserted, no row seen" for a first.
    TakesInvisibleForFree,
    /// Leaves expiry to the sweep.
    ForgetsExpiry,
    /// Commits the claim before the effect, so that it outlives a rollback.
    ClaimsApart,
}

/// A keeper of the kind one writes in an afternoon: claim, effect and answer in one transaction, and one mistake.
pub(crate) struct Naive(pub Mistake);

const INSERT: &str = "INSERT INTO leastlock_idempotency (scope, idempotency_key, fingerprint, state, response_body, created_at, expires_at) \
    SELECT $1, $2, $3, 'completed', $4, created_at, expires_at FROM stamp WHERE true ON CONFLICT DO NOTHING";
const INSERT_MYSQL: &str = "INSERT INTO leastlock_idempotency (scope, idempotency_key, fingerprint, state, response_body, created_at, expires_at) \
    SELECT ?, ?, ?, 'completed', ?, created_at, expires_at FROM stamp";
const INSERT_OR_SELECT: &str = "WITH claimed AS (INSERT INTO leastlock_idempotency \
    (scope, idempotency_key, fingerprint, state, created_at, expires_at) \
    SELECT $1, $2, $3, 'completed', created_at, expires_at FROM stamp ON CONFLICT DO NOTHING RETURNING 1) \
    SELECT 0::bigint FROM claimed UNION ALL \
    SELECT 1::bigint FROM leastlock_idempotency WHERE scope = $1 AND idempotency_key = $2";
const SELECT: &str =
    "SELECT fingerprint, response_body FROM leastlock_idempotency WHERE scope = $1 AND idempotency_key = $2";
const UPDATE: &str =
    "UPDATE leastlock_idempotency SET response_body = $3, fingerprint = $4 WHERE scope = $1 AND idempotency_key = $2";
const DELETE: &str = "DELETE FROM leastlock_idempotency WHERE scope = $1 AND idempotency_key = $2";
// A locking read: on MySQL a plain one shows what the snapshot has.
const SELECT_MYSQL: &str = "SELECT fingerprint, response_body FROM leastlock_idempotency \
    WHERE scope = ? AND idempotency_key = ? LOCK IN SHARE MODE";
const UPDATE_MYSQL: &str =
    "UPDATE leastlock_idempotency SET response_body = ?, fingerprint = ? WHERE scope = ? AND idempotency_key = ?";
const DELETE_MYSQL: &str = "DELETE FROM leastlock_idempotency WHERE scope = ? AND idempotency_key = ?";

/// Inserts the record unless it is there; answers whether it did.
async fn insert<DB: TestEngine>(
    connection: &mut DB::Connection,
    scope: &str,
    key: &str,
    fingerprint: &[u8],
    answer: Option<&[u8]>,
) -> bool {
    let insert = Statement::new(sql::<DB>(INSERT, INSERT_MYSQL)).bind(scope).bind(key).bind(fingerprint).bind(answer);
    match insert.execute::<DB>(connection).await {
        Ok(rows) => rows == 1,
        Err(error) if classify::<DB>(&error) == ErrorClass::UniqueViolation => false,
        Err(error) => panic!("it inserts: {error}"),
    }
}

impl Naive {
    /// The record, if it can be seen and answers this call.
    async fn look<DB: TestEngine>(
        &self,
        connection: &mut DB::Connection,
        scope: &str,
        call: &Call<'_>,
    ) -> Option<Told> {
        let select = Statement::new(sql::<DB>(SELECT, SELECT_MYSQL)).bind(scope).bind(call.key);
        let row = select.fetch_optional::<DB>(connection).await.expect("it reads")?;
        let stored = row.bytes(0).expect("a fingerprint");
        let skipped = self.0 == Mistake::TrustsWhoeverWaits;
        if stored != fingerprint(call.payload).as_bytes() && !skipped {
            return Some(Told::Mismatch);
        }
        Some(match row.optional_bytes(1).expect("an answer") {
            Some(body) => Told::Replayed(String::from_utf8(body).expect("text")),
            None => Told::InFlight,
        })
    }

    async fn run<DB: TestEngine>(&self, connection: &mut DB::Connection, scope: &str, call: &Call<'_>) -> Told {
        let mut payload = call.payload.to_owned();
        insert_effect::<DB>(connection, call).await;
        if finish(&call.handler, &mut payload).await {
            return Told::RolledBack;
        }
        let answer = format!("done:{}", call.payload);
        let stored: Vec<u8> = match self.0 {
            Mistake::FingerprintsAtCompletion => fingerprint(&payload).as_bytes().to_vec(),
            Mistake::DropsTheFingerprint => Vec::new(),
            _ => fingerprint(call.payload).as_bytes().to_vec(),
        };
        insert::<DB>(&mut *connection, scope, call.key, &stored, Some(answer.as_bytes())).await;
        let update = if DB::ENGINE == leastlock_core::Engine::MySql {
            Statement::new(UPDATE_MYSQL).bind(answer.as_bytes()).bind(stored.as_slice()).bind(scope).bind(call.key)
        } else {
            Statement::new(UPDATE).bind(scope).bind(call.key).bind(answer.as_bytes()).bind(stored.as_slice())
        };
        update.execute::<DB>(connection).await.expect("it completes");
        Told::Ran(answer)
    }

    /// Claims first, as one should; answers whether the key was free.
    async fn claim<DB: TestEngine>(&self, connection: &mut DB::Connection, scope: &str, call: &Call<'_>) -> bool {
        let fingerprint = fingerprint(call.payload);
        if self.0 == Mistake::TakesInvisibleForFree {
            let statement = Statement::new(INSERT_OR_SELECT).bind(scope).bind(call.key);
            let row = statement.bind(fingerprint.as_bytes().as_slice()).fetch_optional::<DB>(connection).await;
            return row.expect("it claims").is_none_or(|row| row.int(0).expect("a number") == 0);
        }
        insert::<DB>(connection, scope, call.key, fingerprint.as_bytes(), None).await
    }

    /// The careless order: look, work, and insert at the end.
    async fn look_then_insert<DB: TestEngine>(&self, pool: &Pool<DB>, scope: &str, call: &Call<'_>) -> Told {
        let mut connection = pool.acquire().await.expect("a connection");
        if let Some(told) = self.look::<DB>(&mut connection, scope, call).await {
            return told;
        }
        drop(connection);
        finish(&call.handler, &mut String::new()).await;
        let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
        let told = self.run::<DB>(&mut tx, scope, &Call { handler: Handler::Plain, ..call.clone() }).await;
        tx.commit().await.expect("it commits");
        told
    }
}

impl<DB: TestEngine> Keeper<DB> for Naive {
    async fn place(&self, pool: &Pool<DB>, call: Call<'_>) -> Told {
        let scope = if self.0 == Mistake::ForgetsTheScope { "" } else { call.operation };
        if self.0 == Mistake::LooksThenInserts {
            return self.look_then_insert(pool, scope, &call).await;
        }
        let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
        let free = self.claim::<DB>(&mut tx, scope, &call).await;
        if self.0 == Mistake::ClaimsApart {
            tx.commit().await.expect("it commits");
            tx = pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
        }
        let told = if free {
            self.run::<DB>(&mut tx, scope, &call).await
        } else {
            let told = self.look::<DB>(&mut tx, scope, &call).await;
            told.unwrap_or_else(|| Told::Error("no row inserted and none seen".into()))
        };
        match &told {
            Told::RolledBack => tx.rollback().await.expect("it rolls back"),
            Told::Mismatch if self.0 == Mistake::DeletesOnError => {
                let delete = Statement::new(sql::<DB>(DELETE, DELETE_MYSQL)).bind(scope).bind(call.key);
                delete.execute::<DB>(&mut *tx).await.expect("it deletes");
                tx.commit().await.expect("it commits");
            }
            _ => tx.commit().await.expect("it commits"),
        }
        told
    }
}
