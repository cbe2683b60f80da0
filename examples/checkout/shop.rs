//! The shop: its tables, and how an order is placed without a lock.

use std::sync::Arc;
use std::time::Duration;

use leastlock::core::{Migration, Migrations, Statement};
use leastlock::idempotency::{Begin, Key, Keys, OnDuplicate, Scope};
use leastlock::occ::guarded;
use leastlock::outbox::{Event, Outbox};
use serde::{Deserialize, Serialize};
use sqlx::{Connection, Pool, Transaction};

use crate::ended::Ended;
use crate::engine::Engine;
use crate::ledger::Moved;
use crate::orders::{Move, Order};

/// What goes wrong inside an order; the client looks for what a retry can help.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The texts are right for both engines.
const SCHEMA: &[Migration] = &[
    Migration { version: 1, name: "shop", sql: include_str!("schema.sql") },
    Migration { version: 2, name: "form", sql: include_str!("schema_form.sql") },
];

/// The shop's own tables.
pub(crate) const MIGRATIONS: Migrations =
    Migrations { table: "checkout_migrations", postgres: SCHEMA, sqlite: SCHEMA, mysql: &[] };

const TAKE: &str = "UPDATE shop_stock \
    SET remaining = remaining - $2 + $3, units_out = units_out + $2, units_back = units_back + $3, moves = moves + 1 \
    WHERE stock_code = $1 AND remaining + $3 >= $2";
const SEQUENCE: &str = "SELECT moves FROM shop_stock WHERE stock_code = $1";
const REMEMBERED: &str = "SELECT count(*) FROM leastlock_idempotency WHERE scope = '//place-order'";
const INSERT_ORDER: &str = "INSERT INTO shop_order (invoice, units_out, units_back) VALUES ($1, $2, $3)";

/// What a client is told, the first time and on every repeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Receipt {
    /// Every line was met.
    Placed { units_out: i64, units_back: i64 },
    /// One stock code could not be met, so nothing was taken.
    Refused { stock_code: String },
}

impl Receipt {
    pub(crate) const fn is_placed(&self) -> bool {
        matches!(self, Self::Placed { .. })
    }
}

/// The answer to one request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// What the first copy of the order came to.
    Told(Receipt),
    /// The first is still running.
    AskAgain(Duration),
}

/// A form of the shop.
pub(crate) trait Places: Send + Sync + 'static {
    type DB: Engine;

    /// Places an order. A repeat gets the first's receipt, a refusal included.
    fn place(&self, order: &Arc<Order>) -> impl Future<Output = Result<Answer, BoxError>> + Send;

    /// How many orders have an answer that is kept for their repeats.
    fn remembered(&self) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;
}

/// The plain form: a transaction an order.
#[derive(Debug)]
pub(crate) struct Shop<DB: Engine> {
    pool: Pool<DB>,
    keys: Keys,
    scope: Scope,
    outbox: Outbox,
    topic: Arc<str>,
}

impl<DB: Engine> Shop<DB> {
    pub(crate) fn open(pool: Pool<DB>, outbox: Outbox, topic: &str) -> Result<Self, Ended> {
        let keys = Keys::builder().on_duplicate(OnDuplicate::Wait(Duration::from_mins(1))).build();
        let keys = keys.map_err(|error| Ended::refused("the shop's keys", &error))?;
        let scope = Scope::of_operation("place-order").map_err(|error| Ended::refused("the shop's scope", &error))?;
        Ok(Self { pool, keys, scope, outbox, topic: topic.into() })
    }

    /// All of the order's units, or none: a savepoint undoes what an order took that cannot be met.
    async fn take_units(&self, tx: &mut Transaction<'static, DB>, order: &Order) -> Result<Receipt, BoxError> {
        let mut savepoint = tx.begin().await?;
        let (mut units_out, mut units_back) = (0, 0);
        for (code, &Move { out, back }) in &order.moves {
            let take = Statement::new(TAKE).bind(code).bind(out).bind(back).into_query::<DB>()?;
            let taken = guarded(take).execute(&mut *savepoint).await?;
            if taken.is_refused() {
                savepoint.rollback().await?;
                return Ok(Receipt::Refused { stock_code: code.clone() });
            }
            // The row is locked since the UPDATE, so its sequence follows the order of commits.
            let sequence = Statement::new(SEQUENCE).bind(code).fetch_one::<DB>(&mut savepoint).await?.int(0)?;
            let moved = Moved { invoice: order.invoice.clone(), sequence, out, back };
            self.outbox.append(&mut savepoint, Event::new(&*self.topic, code.as_str()).json(&moved)?).await?;
            (units_out, units_back) = (units_out + out, units_back + back);
        }
        let insert = Statement::new(INSERT_ORDER).bind(&order.invoice).bind(units_out).bind(units_back);
        insert.execute::<DB>(&mut savepoint).await?;
        savepoint.commit().await?;
        Ok(Receipt::Placed { units_out, units_back })
    }
}

impl<DB: Engine> Places for Shop<DB> {
    type DB = DB;

    /// Claim, stock, events and receipt are one transaction.
    async fn place(&self, order: &Arc<Order>) -> Result<Answer, BoxError> {
        let key = Key::new(&self.scope, &order.invoice)?;
        Ok(match self.keys.begin(&self.pool, &key, &order.fingerprint).await? {
            Begin::First(mut unit) => {
                let receipt = self.take_units(unit.tx(), order).await?;
                let receipt = unit.complete(receipt).await?;
                self.outbox.wake().notify();
                Answer::Told(receipt)
            }
            Begin::Replay(receipt) => Answer::Told(receipt),
            Begin::InFlight { retry_after } => Answer::AskAgain(retry_after),
            Begin::Mismatch => return Err(format!("invoice {} was placed with other lines", order.invoice).into()),
        })
    }

    async fn remembered(&self) -> Result<u64, sqlx::Error> {
        count::<DB>(&self.pool, REMEMBERED).await
    }
}

/// The one count that a statement answers with.
pub(crate) async fn count<DB: Engine>(pool: &Pool<DB>, sql: &'static str) -> Result<u64, sqlx::Error> {
    let row = Statement::new(sql).fetch_one::<DB>(&mut *pool.acquire().await?).await?;
    Ok(row.int(0)?.cast_unsigned())
}
