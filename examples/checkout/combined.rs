//! The combined form: the orders of all clients that come at a time are placed in one transaction.
//!
//! The counter absorbs the repeats by its order ids, so this form has no idempotency keys: the answer to an order is kept
//! in the transaction that decides it, here as there. What tells two orders of one number apart is less, though: the units
//! of each stock code, not every field of every line.

use std::collections::BTreeMap;
use std::sync::Arc;

use leastlock::core::Statement;
use leastlock::occ::combiner::BatchError;
use leastlock::occ::{Beside, Counted, Movement, MovementError, StockCounter, StockTable};
use leastlock::outbox::{self, Event, Outbox, Wake};
use serde_json::json;
use sqlx::{Pool, Transaction};

use crate::ended::Ended;
use crate::engine::Engine;
use crate::ledger::Moved;
use crate::orders::{Move, Order, OrderBook};
use crate::shop::{Answer, BoxError, Places, Receipt, count};

/// An application's other operations would have ids under names of their own.
const OPERATION: &str = "place-order/";
const REMEMBERED: &str = "SELECT count(*) FROM leastlock_occ_order WHERE order_id LIKE 'place-order/%'";

/// The combined form of the shop.
#[derive(Debug)]
pub(crate) struct CombinedShop<DB: Engine> {
    pool: Pool<DB>,
    counter: StockCounter<DB, Desk>,
    wake: Wake,
}

impl<DB: Engine> CombinedShop<DB> {
    pub(crate) fn open(pool: Pool<DB>, outbox: Outbox, topic: &str) -> Result<Self, Ended> {
        let wake = outbox.wake();
        let table = StockTable::new("shop_stock", "stock_code", "remaining");
        let table = table.map_err(|error| Ended::refused("the shop's stock", &error))?;
        let counter = StockCounter::builder(&pool, &table).beside(Desk { outbox, topic: topic.into() });
        let counter = counter.build().map_err(|error| Ended::refused("the shop's combiner", &error))?;
        Ok(Self { pool, counter, wake })
    }
}

impl<DB: Engine> Places for CombinedShop<DB> {
    type DB = DB;

    /// Stock, events, order and answer are one transaction, with those of whoever else came.
    async fn place(&self, order: &Arc<Order>) -> Result<Answer, BoxError> {
        Ok(Answer::Told(match self.counter.submit(movement(order)?).await? {
            Counted::Applied => {
                self.wake.notify();
                // Not stored with the order id, because the order says it.
                let Move { out, back } = order.units();
                Receipt::Placed { units_out: out, units_back: back }
            }
            Counted::Refused { key, .. } => Receipt::Refused { stock_code: key },
            Counted::NoSuchRow { key } => return Err(format!("there is no stock code {key}").into()),
            Counted::Mismatch => return Err(format!("invoice {} was placed with other lines", order.invoice).into()),
        }))
    }

    async fn remembered(&self) -> Result<u64, sqlx::Error> {
        answered(&self.pool).await
    }
}

/// How many orders of a run have an answer.
pub(crate) async fn answered<DB: Engine>(pool: &Pool<DB>) -> Result<u64, sqlx::Error> {
    count::<DB>(pool, REMEMBERED).await
}

/// Whether every order can be one movement.
pub(crate) fn check(orders: &OrderBook) -> Result<(), Ended> {
    orders.orders.iter().try_for_each(|order| {
        let made = movement(order).map(drop);
        made.map_err(|error| Ended::refused(&format!("invoice {} cannot be combined", order.invoice), &error))
    })
}

/// The order's moves in stock-code order, so that of several codes that cannot be met the same is named as in the plain form.
fn movement(order: &Arc<Order>) -> Result<Movement<Arc<Order>>, MovementError> {
    let mut movement = Movement::empty();
    for (code, &Move { out, back }) in &order.moves {
        if out > 0 {
            movement = movement.and_take(code, out)?;
        }
        if back > 0 {
            movement = movement.and_give(code, back)?;
        }
    }
    Ok(movement.with_order_id(format!("{OPERATION}{}", order.invoice))?.with_note(Arc::clone(order)))
}

/// Writes what belongs to the orders of a batch: the sums and the sequence of each stock code, the events, the orders. Three
/// statements, however many orders there are.
#[derive(Debug)]
struct Desk {
    outbox: Outbox,
    topic: Arc<str>,
}

impl<DB: Engine> Beside<DB> for Desk {
    type Note = Arc<Order>;

    async fn write(&self, tx: &mut Transaction<'_, DB>, applied: &[&Movement<Arc<Order>>]) -> Result<(), BatchError> {
        let orders: Vec<&Order> = applied.iter().map(|movement| &**movement.note()).collect();
        let events = self.events(&orders, count_moves::<DB>(tx, &orders).await?)?;
        self.outbox.append_all(tx, &events).await.map_err(retryable)?;
        insert_orders::<DB>(tx, &orders).await
    }
}

impl Desk {
    /// The events in the order in which the orders came, numbered by stock code from `next` on.
    fn events(&self, orders: &[&Order], mut next: BTreeMap<String, i64>) -> Result<Vec<Event>, BatchError> {
        let mut events = Vec::new();
        for order in orders {
            for (code, &Move { out, back }) in &order.moves {
                let next = next.get_mut(code).ok_or_else(|| BatchError::operation(format!("no stock code {code}")))?;
                let moved = Moved { invoice: order.invoice.clone(), sequence: *next, out, back };
                let event = Event::new(&*self.topic, code.as_str()).json(&moved).map_err(BatchError::operation)?;
                events.push(event);
                *next += 1;
            }
        }
        Ok(events)
    }
}

/// Adds the orders' moves to the rows, which the counter has locked; answers the number of each code's first one.
async fn count_moves<DB: Engine>(
    tx: &mut Transaction<'_, DB>,
    orders: &[&Order],
) -> Result<BTreeMap<String, i64>, BatchError> {
    let mut changes = BTreeMap::<&str, (i64, Move)>::new();
    for (code, moved) in orders.iter().flat_map(|order| &order.moves) {
        let (moves, sum) = changes.entry(code).or_default();
        *moves += 1;
        *sum = Move { out: sum.out + moved.out, back: sum.back + moved.back };
    }
    let changes_of = |(code, (moves, Move { out, back })): (&&str, &(i64, Move))| json!([code, moves, out, back]);
    let json = changes.iter().map(changes_of).collect::<serde_json::Value>().to_string();
    let mut first = BTreeMap::new();
    for row in Statement::new(DB::COUNT_MOVES).bind(&json).fetch_all::<DB>(tx).await? {
        let (code, last) = (row.text(0)?, row.int(1)?);
        let moves = changes.get(code.as_str()).map_or(0, |(moves, _)| *moves);
        first.insert(code, last - moves + 1);
    }
    Ok(first)
}

/// In the order of the invoices, as every process inserts them. One that is there already was placed by another process at the
/// same moment, or by this one before its commit's reply was lost: the batch is decided anew, and finds its answer.
async fn insert_orders<DB: Engine>(tx: &mut Transaction<'_, DB>, orders: &[&Order]) -> Result<(), BatchError> {
    let mut orders = orders.to_vec();
    orders.sort_unstable_by_key(|order| &order.invoice);
    let row = |order: &&Order| {
        let Move { out, back } = order.units();
        json!([order.invoice, out, back])
    };
    let json = orders.iter().map(row).collect::<serde_json::Value>().to_string();
    let inserted = Statement::new(DB::INSERT_ORDERS).bind(&json).execute::<DB>(tx).await?;
    if inserted == orders.len() as u64 { Ok(()) } else { Err(BatchError::Raced) }
}

/// What the database said is the combiner's to judge: a deadlock is tried again, and only what cannot be helped fails an
/// order.
fn retryable(error: outbox::Error) -> BatchError {
    match error {
        outbox::Error::Database { source, .. } => BatchError::Database { source },
        error => BatchError::operation(error),
    }
}
