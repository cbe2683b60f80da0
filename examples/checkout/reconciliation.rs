//! The end of the day: every figure must agree with every other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;

use leastlock::core::Statement;
use sqlx::Pool;

use crate::engine::Engine;
use crate::orders::{Move, OrderBook};
use crate::shop::Receipt;

const ROWS: &str = "SELECT s.stock_code, s.opening, s.remaining, s.units_out, s.units_back, s.moves, \
    l.units_out, l.units_back, l.last_sequence \
    FROM shop_stock AS s LEFT JOIN ledger AS l ON l.stock_code = s.stock_code";
const ORDERS: &str = "SELECT invoice FROM shop_order";
/// At most this many breaches are told one by one.
const MAX_BREACHES: usize = 20;

/// One stock code, in the shop's table and in the ledger.
#[derive(Debug, Default, Clone, Copy)]
struct Row {
    opening: i64,
    remaining: i64,
    shop: Move,
    moves: i64,
    ledger: Option<(Move, i64)>,
}

/// What the tables say.
#[derive(Debug, Default)]
pub(crate) struct Books {
    rows: BTreeMap<String, Row>,
    placed: BTreeSet<String>,
}

impl Books {
    pub(crate) async fn read<DB: Engine>(pool: &Pool<DB>) -> Result<Self, sqlx::Error> {
        let mut connection = pool.acquire().await?;
        let mut books = Self::default();
        for row in Statement::new(ROWS).fetch_all::<DB>(&mut connection).await? {
            let ledger = match row.optional_int(6)? {
                Some(out) => Some((Move { out, back: row.int(7)? }, row.int(8)?)),
                None => None,
            };
            let shop = Move { out: row.int(3)?, back: row.int(4)? };
            let (opening, remaining, moves) = (row.int(1)?, row.int(2)?, row.int(5)?);
            books.rows.insert(row.text(0)?, Row { opening, remaining, shop, moves, ledger });
        }
        for row in Statement::new(ORDERS).fetch_all::<DB>(&mut connection).await? {
            books.placed.insert(row.text(0)?);
        }
        Ok(books)
    }

    /// Events that the shop appended.
    pub(crate) fn events(&self) -> i64 {
        self.rows.values().map(|row| row.moves).sum()
    }

    pub(crate) fn units(&self) -> Move {
        self.rows
            .values()
            .fold(Move::default(), |sum, row| Move { out: sum.out + row.shop.out, back: sum.back + row.shop.back })
    }

    /// Everything that does not hold: opening − out + back = remaining in the shop and in the ledger, what the clients were
    /// told is what the shop holds, no order twice, no gap or inversion in any sequence.
    pub(crate) fn breaches(&self, orders: &OrderBook, receipts: &[Option<Receipt>]) -> Vec<String> {
        let mut breaches = Vec::new();
        let mut told = BTreeMap::<&str, (Move, i64)>::new();
        for (order, receipt) in orders.orders.iter().zip(receipts) {
            let placed = matches!(receipt, Some(Receipt::Placed { .. }));
            if placed != self.placed.contains(&order.invoice) {
                breaches.push(format!("invoice {}: the client was told {receipt:?}", order.invoice));
            }
            for (code, moved) in order.moves.iter().filter(|_| placed) {
                let (sum, moves) = told.entry(code).or_default();
                (sum.out, sum.back, *moves) = (sum.out + moved.out, sum.back + moved.back, *moves + 1);
            }
        }
        for (code, row) in &self.rows {
            let expected = told.get(code.as_str()).copied().unwrap_or_default();
            breaches.extend(row.breaches(expected).into_iter().map(|breach| format!("stock code {code}: {breach}")));
        }
        if breaches.len() > MAX_BREACHES {
            let more = breaches.len() - MAX_BREACHES;
            breaches.truncate(MAX_BREACHES);
            breaches.push(format!("and {more} more"));
        }
        breaches
    }

    /// Writes the ledger as CSV.
    pub(crate) fn write_ledger(&self, file: File) -> Result<(), csv::Error> {
        let mut csv = csv::Writer::from_writer(file);
        csv.write_record(["stock_code", "units_out", "units_back", "remaining"])?;
        for (code, row) in &self.rows {
            let (ledger, _) = row.ledger.unwrap_or_default();
            let remaining = row.opening - ledger.out + ledger.back;
            csv.serialize((code, ledger.out, ledger.back, remaining))?;
        }
        Ok(csv.flush()?)
    }
}

impl Row {
    fn breaches(&self, (told, moves): (Move, i64)) -> Vec<String> {
        let mut breaches = Vec::new();
        let mut check = |holds: bool, breach: String| {
            if !holds {
                breaches.push(breach);
            }
        };
        let (ledger, last_sequence) = self.ledger.unwrap_or_default();
        for (books, moved) in [("the shop", self.shop), ("the ledger", ledger)] {
            let left = self.opening - moved.out + moved.back;
            check(left == self.remaining, format!("{books} has {left} left and the shelf {}", self.remaining));
            check(moved == told, format!("{books} moved {moved:?} and the clients were told {told:?}"));
        }
        check(self.remaining >= 0, format!("{} units are left", self.remaining));
        check(self.moves == moves, format!("{} moves for {moves} orders: one was placed twice or lost", self.moves));
        check(last_sequence == moves, format!("the ledger ends at move {last_sequence} of {moves}"));
        breaches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: (Move, i64) = (Move { out: 5, back: 1 }, 2);

    fn right() -> Row {
        Row { opening: 10, remaining: 6, shop: TOLD.0, moves: 2, ledger: Some(TOLD) }
    }

    #[test]
    fn books_that_agree_have_no_breach() {
        assert_eq!(right().breaches(TOLD), Vec::<String>::new());
    }

    #[test]
    fn every_single_error_is_seen() {
        let doubled = Move { out: 10, back: 1 };
        for wrong in [
            Row { remaining: 5, ..right() },
            Row { shop: doubled, ..right() },
            Row { moves: 3, ..right() },
            Row { ledger: Some((doubled, 2)), ..right() },
            Row { ledger: Some((TOLD.0, 1)), ..right() },
            Row { ledger: None, ..right() },
            Row { opening: 4, remaining: -1, ..right() },
        ] {
            assert_ne!(wrong.breaches(TOLD), Vec::<String>::new(), "{wrong:?}");
        }
    }
}
