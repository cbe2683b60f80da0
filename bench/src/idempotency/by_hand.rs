//! The same in sqlx alone, as one writes it without the library.

use anyhow::{Context, ensure};
use leastlock_testkit::database::{MySql, Postgres, Sqlite};
use sha2::{Digest, Sha256};
use sqlx::Pool;

use super::KeyEngine;
use super::order::{Order, Placed, Receipt};
use crate::stock::StockByHand;

/// The scope of the requests that are answered by hand. It has the length of the library's.
const SCOPE: &str = "tenant-7/user-3/place-orders-self";

/// A stored answer: fingerprint and response.
type Stored = (Vec<u8>, Vec<u8>);

/// The statements of this scenario.
pub(crate) trait IdempotencyByHand: StockByHand {
    /// How one begins a transaction that will write.
    const BEGIN: &'static str;
    /// Removes all keys as cheaply as the engine can.
    const EMPTY_KEYS: &'static str;

    /// The effect, the same for every contender: a conditional UPDATE; answers how many rows it changed.
    fn take_units(connection: &mut Self::Connection, order: &Order) -> impl Future<Output = sqlx::Result<u64>> + Send;

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

/// sqlx's bounds on generic queries fill a page. `$common` is the folder of the statements that differ in placeholders only,
/// `$own` of those that differ in more; `$again` binds the units once more where a placeholder stands for one place only.
macro_rules! by_hand {
    ($engine:ty, $common:literal, $own:literal, begin: $begin:literal, empty: $empty:literal $(, again: $bind:ident)?) => {
        impl IdempotencyByHand for $engine {
            const BEGIN: &'static str = $begin;
            const EMPTY_KEYS: &'static str = concat!($empty, " leastlock_idempotency");

            async fn take_units(connection: &mut Self::Connection, order: &Order) -> sqlx::Result<u64> {
                let Order { item, units, .. } = order;
                let take = sqlx::query(Self::TAKE).bind(*units).bind(item)$(.$bind(*units))?;
                Ok(take.execute(connection).await?.rows_affected())
            }

            async fn insert_claim(
                connection: &mut Self::Connection,
                key: &str,
                fingerprint: &[u8],
            ) -> sqlx::Result<bool> {
                const CLAIM: &str = include_str!(concat!("../../sql/", $own, "claim.sql"));
                let claim = sqlx::query(CLAIM).bind(SCOPE).bind(key).bind(fingerprint);
                match claim.execute(connection).await {
                    Ok(claimed) => Ok(claimed.rows_affected() == 1),
                    Err(sqlx::Error::Database(error)) if error.is_unique_violation() => Ok(false),
                    Err(error) => Err(error),
                }
            }

            async fn complete(connection: &mut Self::Connection, key: &str, response: &[u8]) -> sqlx::Result<u64> {
                const COMPLETE: &str = include_str!(concat!("../../sql/", $common, "complete.sql"));
                let complete = sqlx::query(COMPLETE).bind(response).bind(SCOPE).bind(key);
                Ok(complete.execute(connection).await?.rows_affected())
            }

            async fn stored(connection: &mut Self::Connection, key: &str) -> sqlx::Result<Option<Stored>> {
                const STORED: &str = include_str!(concat!("../../sql/", $own, "stored.sql"));
                sqlx::query_as(STORED).bind(SCOPE).bind(key).fetch_optional(connection).await
            }
        }
    };
}
by_hand!(Postgres, "", "postgres/", begin: "BEGIN", empty: "TRUNCATE TABLE");
by_hand!(Sqlite, "", "sqlite/", begin: "BEGIN IMMEDIATE", empty: "DELETE FROM");
by_hand!(MySql, "mysql/", "mysql/", begin: "BEGIN", empty: "TRUNCATE TABLE", again: bind);

/// The effect, and the answer to it.
pub(super) async fn effect<DB: KeyEngine>(connection: &mut DB::Connection, order: &Order) -> anyhow::Result<Receipt> {
    ensure!(DB::take_units(connection, order).await? == 1, "{} was sold out: the load was not as planned", order.item);
    Ok(order.receipt())
}

/// A whole request: claim, effect, answer and commit, or the stored answer.
pub(super) async fn place<DB: KeyEngine>(pool: &Pool<DB>, order: &Order) -> anyhow::Result<Placed> {
    let fingerprint = fingerprint(order)?;
    let mut tx = pool.begin_with(DB::BEGIN).await?;
    if !DB::insert_claim(&mut tx, &order.key, &fingerprint).await? {
        let stored = DB::stored(&mut tx, &order.key).await?;
        return replayed(stored, &fingerprint);
    }
    let receipt = effect::<DB>(&mut tx, order).await?;
    let response = serde_json::to_vec(&receipt)?;
    ensure!(DB::complete(&mut tx, &order.key, &response).await? == 1, "the claim is gone");
    tx.commit().await?;
    Ok(Placed::First(receipt))
}

/// Less than a request: the effect in a transaction, without a key.
pub(super) async fn bare<DB: KeyEngine>(pool: &Pool<DB>, order: &Order) -> anyhow::Result<Receipt> {
    let mut tx = pool.begin_with(DB::BEGIN).await?;
    let receipt = effect::<DB>(&mut tx, order).await?;
    tx.commit().await?;
    Ok(receipt)
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
