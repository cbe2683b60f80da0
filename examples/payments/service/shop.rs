//! Orders and stock: the local steps of a payment. Each runs in the transaction of its step, with its event.

use std::sync::Arc;

use leastlock::core::{Migration, Migrations, Statement};
use leastlock::idempotency::Key;
use leastlock::occ::{Transition, Transitioned, guarded};
use leastlock::outbox::{Event, Outbox};
use serde::{Deserialize, Serialize};
use sqlx::{Connection, Pool, Transaction};

use crate::BoxError;
use crate::engine::Engine;
use crate::service::card::Charge;

/// The text is right for both engines.
const SCHEMA: &[Migration] = &[Migration { version: 1, name: "payments", sql: include_str!("../schema.sql") }];

/// The service's own tables.
pub(crate) const MIGRATIONS: Migrations =
    Migrations { table: "payments_migrations", postgres: SCHEMA, sqlite: SCHEMA, mysql: &[] };

/// The most units that one order may ask for.
const MAX_UNITS: i64 = 1_000;
/// The longest name of an order or an item, in bytes.
const MAX_NAME_BYTES: usize = 64;

const PUT_ON_SALE: &str = "INSERT INTO payment_stock (item, price_cents, opening, units) VALUES ($1, $2, $3, $3) ON CONFLICT (item) DO NOTHING";
const PRICE: &str = "SELECT price_cents FROM payment_stock WHERE item = $1";
const INSERT_ORDER: &str = "INSERT INTO payment_order \
    (order_id, customer, idempotency_key, item, units, amount_cents, state) VALUES ($1, $2, $3, $4, $5, $6, 'reserved') \
    ON CONFLICT (order_id) DO NOTHING";
const TAKE: &str = "UPDATE payment_stock SET units = units - $2 WHERE item = $1 AND units >= $2";
const GIVE_BACK: &str = "UPDATE payment_stock SET units = units + $2, given_back = given_back + $2 WHERE item = $1";
const CHARGED: &str = "UPDATE payment_order SET charge_id = $2 WHERE order_id = $1";
const DECLINED: &str = "UPDATE payment_order SET declined = $2 WHERE order_id = $1";
const STATE: &str = "SELECT state FROM payment_order WHERE order_id = $1 AND customer = $2";

/// The states of an order. Each move is one conditional `UPDATE`, so of two that leave `Reserved` one is applied, whatever
/// else goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Transition)]
#[transition(table = "payment_order", key = "order_id", state = "state", crate = "leastlock::occ")]
pub(crate) enum OrderState {
    #[transition(initial, to(Paid, Cancelled))]
    Reserved,
    Paid,
    Cancelled,
}

/// What a customer asks for.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    /// The customer's own name for it; with a second idempotency key it is refused.
    #[serde(rename = "order")]
    pub(crate) id: String,
    pub(crate) item: String,
    pub(crate) units: i64,
    /// The token of the card, from the provider.
    pub(crate) card: String,
}

/// What became of the reservation: the result of the first step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reservation {
    Reserved {
        amount_cents: i64,
    },
    SoldOut,
    NoSuchItem,
    /// The order was made under another idempotency key.
    OrderTaken,
}

/// What others are told: one event an order, when it has come to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Notice {
    Paid { order: String, amount_cents: i64, charge: String },
    Cancelled { order: String, reason: String },
}

impl Notice {
    /// Whose it is.
    pub(crate) fn order(&self) -> &str {
        match self {
            Self::Paid { order, .. } | Self::Cancelled { order, .. } => order,
        }
    }
}

impl Order {
    /// Whether it can be tried at all.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let named = |name: &str| !name.is_empty() && name.len() <= MAX_NAME_BYTES;
        if !named(&self.id) || !named(&self.item) || !named(&self.card) {
            Err("order, item and card are 1 to 64 bytes each")
        } else if !(1..=MAX_UNITS).contains(&self.units) {
            Err("units are 1 to 1,000")
        } else {
            Ok(())
        }
    }
}

/// The shop.
#[derive(Debug, Clone)]
pub(crate) struct Shop {
    outbox: Outbox,
    topic: Arc<str>,
}

impl Shop {
    pub(crate) fn new(outbox: Outbox, topic: &str) -> Self {
        Self { outbox, topic: topic.into() }
    }

    /// What is committed can be published: spares the relay its next poll.
    pub(crate) fn committed(&self) {
        self.outbox.wake().notify();
    }

    /// The order and its stock, or neither.
    pub(crate) async fn reserve<DB: Engine>(
        &self,
        tx: &mut Transaction<'static, DB>,
        (customer, key): (&str, &Key),
        order: &Order,
    ) -> Result<Reservation, BoxError> {
        let Some(price) = Statement::new(PRICE).bind(&order.item).fetch_optional::<DB>(tx).await? else {
            return Ok(Reservation::NoSuchItem);
        };
        let amount_cents = price.int(0)? * order.units;
        let mut savepoint = tx.begin().await?;
        let insert = Statement::new(INSERT_ORDER)
            .bind(&order.id)
            .bind(customer)
            .bind(key.as_str())
            .bind(&order.item)
            .bind(order.units)
            .bind(amount_cents)
            .into_query::<DB>()?;
        if guarded(insert).execute(&mut *savepoint).await?.is_refused() {
            savepoint.rollback().await?;
            return Ok(Reservation::OrderTaken);
        }
        let take = Statement::new(TAKE).bind(&order.item).bind(order.units).into_query::<DB>()?;
        if guarded(take).execute(&mut *savepoint).await?.is_refused() {
            // The order goes with the savepoint; the step is recorded all the same.
            savepoint.rollback().await?;
            return Ok(Reservation::SoldOut);
        }
        savepoint.commit().await?;
        Ok(Reservation::Reserved { amount_cents })
    }

    /// The order is paid, and others are told so.
    pub(crate) async fn settle<DB: Engine>(
        &self,
        tx: &mut Transaction<'static, DB>,
        order: &Order,
        charge: &Charge,
    ) -> Result<(), BoxError> {
        end::<DB>(tx, order, OrderState::Paid).await?;
        let charged = Statement::new(CHARGED).bind(&order.id).bind(&charge.id).into_query::<DB>()?;
        changed(guarded(charged).exactly(1).execute(tx).await?)?;
        let notice =
            Notice::Paid { order: order.id.clone(), amount_cents: charge.amount_cents, charge: charge.id.clone() };
        self.outbox.append(tx, Event::new(&*self.topic, order.id.as_str()).json(&notice)?).await?;
        Ok(())
    }

    /// The order is off, its stock is back, and others are told so.
    pub(crate) async fn cancel<DB: Engine>(
        &self,
        tx: &mut Transaction<'static, DB>,
        order: &Order,
        reason: &str,
    ) -> Result<(), BoxError> {
        end::<DB>(tx, order, OrderState::Cancelled).await?;
        let give_back = Statement::new(GIVE_BACK).bind(&order.item).bind(order.units).into_query::<DB>()?;
        changed(guarded(give_back).exactly(1).execute(tx).await?)?;
        let declined = Statement::new(DECLINED).bind(&order.id).bind(reason).into_query::<DB>()?;
        changed(guarded(declined).exactly(1).execute(tx).await?)?;
        let notice = Notice::Cancelled { order: order.id.clone(), reason: reason.to_owned() };
        self.outbox.append(tx, Event::new(&*self.topic, order.id.as_str()).json(&notice)?).await?;
        Ok(())
    }
}

/// Puts items on sale that are not yet; prices follow from the number.
pub(crate) async fn put_on_sale<DB: Engine>(pool: &Pool<DB>, items: u32, opening: i64) -> Result<(), sqlx::Error> {
    let mut tx = leastlock::core::begin(pool).await?;
    for item in 0..items {
        let price_cents = 199 + 100 * i64::from(item % 10);
        let name = item_name(item);
        let sale = Statement::new(PUT_ON_SALE).bind(&name).bind(price_cents).bind(opening);
        sale.execute::<DB>(&mut tx).await?;
    }
    leastlock::core::commit(tx).await
}

pub(crate) fn item_name(number: u32) -> String {
    format!("item-{number}")
}

/// The state of a customer's order.
pub(crate) async fn state<DB: Engine>(
    pool: &Pool<DB>,
    order: &str,
    customer: &str,
) -> Result<Option<String>, sqlx::Error> {
    let mut connection = pool.acquire().await?;
    let state = Statement::new(STATE).bind(order).bind(customer).fetch_optional::<DB>(&mut connection).await?;
    state.map(|row| row.text(0)).transpose()
}

async fn end<DB: Engine>(tx: &mut Transaction<'static, DB>, order: &Order, to: OrderState) -> Result<(), BoxError> {
    match DB::move_order(tx, &order.id, OrderState::Reserved, to).await? {
        Transitioned::Applied => Ok(()),
        // The step's own fence comes first, so this is another program's hand in the table.
        Transitioned::Conflict(conflict) => Err(format!("the order was moved by somebody else: {conflict}").into()),
    }
}

fn changed(outcome: leastlock::occ::Guarded) -> Result<(), BoxError> {
    if outcome.is_applied() { Ok(()) } else { Err("a row that the reservation made is gone".into()) }
}
