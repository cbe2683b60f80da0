//! A batch of movements in its transaction.

use std::collections::BTreeSet;
use std::marker::PhantomData;

use sqlx::Transaction;

use super::at_once::AtOnce;
use super::beside::Beside;
use super::counted::Counted;
use super::decision::{Decision, decide};
use super::movement::Movement;
use super::short_way::ShortWay;
use super::sql::{Locked, One, StockSql, Texts, Wanted, Writes};
use crate::combiner::{Apply, Batch, BatchError, still_open};

/// Applies movements: lock, decide in memory, write.
#[derive(Debug)]
pub struct Counting<DB, B> {
    pub(super) texts: Texts,
    pub(super) floor: i64,
    pub(super) beside: B,
    /// Whether `beside` writes anything.
    pub(super) has_beside: bool,
    pub(super) short_way: ShortWay,
    pub(super) database: PhantomData<fn() -> DB>,
}

impl<DB: StockSql, B: Beside<DB>> Apply<DB> for Counting<DB, B> {
    type Operation = Movement<B::Note>;
    type Answer = Counted;

    async fn apply(
        &self,
        tx: &mut Transaction<'_, DB>,
        batch: &mut Batch<Movement<B::Note>, Counted>,
    ) -> Result<(), BatchError> {
        let wanted = Wanted::by(batch);
        let Locked(found) = DB::lock(tx, &self.texts, &wanted).await?;
        let decision = decide(batch.operations(), found, self.floor);
        if decision.is_read_only() {
            batch.wrote_nothing();
        } else {
            if !decision.applied.is_empty() {
                let operations = batch.operations();
                let applied: Vec<_> = decision.applied.iter().map(|place| &operations[*place]).collect();
                self.beside.write(tx, &applied).await?;
                if self.has_beside && DB::TRANSACTION.is_none() {
                    // If it passed over an error that ended the transaction, what follows would commit by itself.
                    still_open(tx).await?;
                }
            }
            // Last, and always run, so that it finds out whether anything before has left the transaction aborted.
            let writes = Writes::of(&decision);
            let written = DB::write(tx, &self.texts, &writes).await?;
            if written.rows != as_count(&writes.keys) {
                return Err(BatchError::operation(Suppressed));
            }
            if written.orders != as_count(&writes.order_ids) {
                return Err(BatchError::Raced);
            }
            match written.transaction {
                Some(transaction) => batch.name_transaction(transaction),
                None => batch.is_still_open(),
            }
        }
        batch.answer_all(decision.answers);
        Ok(())
    }

    async fn apply_at_once(
        &self,
        connection: &mut DB::Connection,
        movements: &[Movement<B::Note>],
    ) -> Result<Option<Vec<Counted>>, BatchError> {
        if !self.short_way.is_taken() {
            return Ok(None);
        }
        let moved = match one_row_of(movements, self.floor, self.texts.has_order_alone()) {
            Some(one) => DB::move_one(connection, &self.texts, &one).await?,
            None => match AtOnce::of(movements, self.floor) {
                Some(at_once) => DB::move_at_once(connection, &self.texts, &at_once).await?,
                None => None,
            },
        };
        let Some(is_moved) = moved else { return Ok(None) };
        self.short_way.led(is_moved);
        Ok(is_moved.then(|| vec![Counted::Applied; movements.len()]))
    }

    fn absorbs_repeats(&self, operation: &Movement<B::Note>) -> bool {
        operation.order_id().is_some()
    }
}

/// A movement of one row that came alone. `has_order_alone`: whether there is a statement for one with an order id.
fn one_row_of<N>(movements: &[Movement<N>], floor: i64, has_order_alone: bool) -> Option<One<'_>> {
    let [movement] = movements else { return None };
    let [(key, delta)] = movement.changes() else { return None };
    if movement.order_id().is_some() && !has_order_alone {
        return None;
    }
    let order = movement.order_id().map(|order_id| (order_id, movement.digest()));
    Some(One { key, delta: *delta, floor, order })
}

impl Wanted {
    fn by<N>(batch: &Batch<Movement<N>, Counted>) -> Self {
        let movements = batch.operations();
        let keys: BTreeSet<&String> = movements.iter().flat_map(Movement::changes).map(|(key, _)| key).collect();
        let order_ids: BTreeSet<&str> = movements.iter().filter_map(Movement::order_id).collect();
        Self {
            keys: keys.into_iter().cloned().collect(),
            order_ids: order_ids.into_iter().map(str::to_owned).collect(),
            was_raced: batch.attempt() > 1,
        }
    }
}

impl Writes {
    fn of(decision: &Decision) -> Self {
        let mut writes = Self::default();
        for (key, delta) in &decision.deltas {
            writes.keys.push(key.clone());
            writes.deltas.push(*delta);
        }
        for (order_id, (place, digest)) in &decision.to_store {
            writes.order_ids.push(order_id.clone());
            writes.digests.push(*digest);
            writes.answers.push(decision.answers[*place].to_stored());
        }
        writes
    }
}

fn as_count<T>(list: &[T]) -> i64 {
    i64::try_from(list.len()).unwrap_or(i64::MAX)
}

/// A row was locked and still not changed.
#[derive(Debug, thiserror::Error)]
#[error("a row was locked, but the write did not reach it; look for a trigger, a rule or a row security policy")]
struct Suppressed;
