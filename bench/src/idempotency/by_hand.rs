//! The same in sqlx alone, as one writes it without the library.

use anyhow::{Context, ensure};
use leastlock_testkit::database::{Postgres, Sqlite};
use sha2::{Digest, Sha256};
use sqlx::Pool;

use super::{KeyEngine, Order, Placed, Receipt};

/// The scope of the requests that are answered by hand. It has the length of the library's.
pub(crate) const SCOPE: &str = "tenant-7/user-3/place-orders-self";

const EFFECT: &str = include_str!("../../sql/effect.sql");
const COMPLETE: &str = include_str!("../../sql/complete.sql");

/// A stored answer: fingerprint and response.
type Stored = (Vec<u8>, Vec<u8>);

/// The statements of this scenario.
pub(crate) trait IdempotencyByHand: sqlx::Database {
    /// The table of the effects.
    const EFFECT_TABLE: &'static str;
    /// Removes all effects as cheaply as the engine can.
    const EMPTY_EFFECTS: &'static str;
    /// Removes all keys as cheaply as the engine can.
    const EMPTY_KEYS: &'static str;

    /// The effect, the same for every contender; answers its id.
    fn effect(connection: &mut Self::Connection, order: &Order) -> impl Future<Output = sqlx::Result<i64>> + Send;

    /// Claims a key; answers whether it was free.
    fn insert_claim(
        connection: &mut Self::Connection,
        key: &str,
        fingerprint: &[u8],
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Stores the answer of a claimed key; answers how many rows that changed.
    fn complete(
        connection: &mut Self::Connection,
        key: &str,
        response: &[u8],
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// The stored answer of a key.
    fn stored(
        connection: &mut Self::Connection,
        key: &str,
    ) -> impl Future<Output = sqlx::Result<Option<Stored>>> + Send;
}

/// sqlx's bounds on generic queries fill a page; only types and clocks differ between the engines.
macro_rules! by_hand {
    ($engine:ty, $folder:literal, id: $id:literal, empty: $empty:literal) => {
        impl IdempotencyByHand for $engine {
            const EFFECT_TABLE: &'static str = concat!(
                "CREATE TABLE effect (id ",
                $id,
                ", request_key text NOT NULL, item text NOT NULL, units bigint NOT NULL)"
            );
            const EMPTY_EFFECTS: &'static str = concat!($empty, " effect");
            const EMPTY_KEYS: &'static str = concat!($empty, " leastlock_idempotency");

            async fn effect(connection: &mut Self::Connection, order: &Order) -> sqlx::Result<i64> {
                let insert = sqlx::query_scalar(EFFECT).bind(&order.key).bind(&order.item).bind(order.units);
                insert.fetch_one(connection).await
            }

            async fn insert_claim(
                connection: &mut Self::Connection,
                key: &str,
                fingerprint: &[u8],
            ) -> sqlx::Result<bool> {
                const CLAIM: &str = include_str!(concat!("../../sql/", $folder, "/claim.sql"));
                let claim = sqlx::query(CLAIM).bind(SCOPE).bind(key).bind(fingerprint);
                Ok(claim.execute(connection).await?.rows_affected() == 1)
            }

            async fn complete(connection: &mut Self::Connection, key: &str, response: &[u8]) -> sqlx::Result<u64> {
                let complete = sqlx::query(COMPLETE).bind(SCOPE).bind(key).bind(response);
                Ok(complete.execute(connection).await?.rows_affected())
            }

            async fn stored(connection: &mut Self::Connection, key: &str) -> sqlx::Result<Option<Stored>> {
                const STORED: &str = include_str!(concat!("../../sql/", $folder, "/stored.sql"));
                sqlx::query_as(STORED).bind(SCOPE).bind(key).fetch_optional(connection).await
            }
        }
    };
}
by_hand!(Postgres, "postgres", id: "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY", empty: "TRUNCATE");
by_hand!(Sqlite, "sqlite", id: "INTEGER PRIMARY KEY", empty: "DELETE FROM");

/// A whole request: claim, effect, answer and commit, or the stored answer.
pub(crate) async fn place<DB: KeyEngine>(pool: &Pool<DB>, order: &Order) -> anyhow::Result<Placed> {
    let fingerprint = fingerprint(order)?;
    let mut tx = pool.begin_with(DB::BEGIN_WRITE).await?;
    if !DB::insert_claim(&mut tx, &order.key, &fingerprint).await? {
        let stored = DB::stored(&mut tx, &order.key).await?;
        return replayed(stored, &fingerprint);
    }
    let receipt = order.receipt(DB::effect(&mut tx, order).await?);
    let response = serde_json::to_vec(&receipt)?;
    ensure!(DB::complete(&mut tx, &order.key, &response).await? == 1, "the claim is gone");
    tx.commit().await?;
    Ok(Placed::First(receipt))
}

/// Less than a request: the answer is known to be there, so it is read in one statement without a transaction.
pub(crate) async fn look_up<DB: KeyEngine>(pool: &Pool<DB>, order: &Order) -> anyhow::Result<Placed> {
    let fingerprint = fingerprint(order)?;
    let mut connection = pool.acquire().await?;
    replayed(DB::stored(&mut connection, &order.key).await?, &fingerprint)
}

/// Less than a request: the effect in a transaction, without a key.
pub(crate) async fn bare<DB: KeyEngine>(pool: &Pool<DB>, order: &Order) -> anyhow::Result<Placed> {
    let mut tx = pool.begin_with(DB::BEGIN_WRITE).await?;
    let receipt = order.receipt(DB::effect(&mut tx, order).await?);
    tx.commit().await?;
    Ok(Placed::First(receipt))
}

fn replayed(stored: Option<Stored>, fingerprint: &[u8]) -> anyhow::Result<Placed> {
    let (of_first, response) = stored.context("the key is neither free nor answered")?;
    ensure!(of_first == fingerprint, "the key was used for another request");
    let receipt: Receipt = serde_json::from_slice(&response)?;
    Ok(Placed::Replay(receipt))
}

fn fingerprint(order: &Order) -> anyhow::Result<[u8; 32]> {
    Ok(Sha256::new().chain_update("POST /orders ").chain_update(order.body()?).finalize().into())
}
