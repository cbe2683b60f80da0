//! A day of orders, read from CSV.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use leastlock::idempotency::Fingerprint;
use sha2::{Digest, Sha256};

use crate::ended::Ended;

/// What the sample and every file of its kind look like.
const COLUMNS: [&str; 8] =
    ["InvoiceNo", "StockCode", "Description", "Quantity", "InvoiceDate", "UnitPrice", "CustomerID", "Country"];
/// Codes that are charges, compared without case: they move no stock.
const CHARGES: [&str; 11] = ["POST", "DOT", "M", "D", "C2", "CRUK", "AMAZONFEE", "BANK CHARGES", "S", "B", "PADS"];
/// Limits of a file; real days have some thousands of lines.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// A day of orders.
#[derive(Debug)]
pub(crate) struct OrderBook {
    /// In the order of the file.
    pub(crate) orders: Vec<Arc<Order>>,
    pub(crate) counts: Counts,
    /// SHA-256 of the file, in hex: which day a database belongs to.
    pub(crate) sha256: String,
}

/// One invoice: an order, or a cancellation.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) invoice: String,
    pub(crate) fingerprint: Fingerprint,
    /// In stock-code order, so that two orders take their rows in the same order and cannot deadlock.
    pub(crate) moves: BTreeMap<String, Move>,
}

/// What an order does to one stock code, its lines added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) out: i64,
    pub(crate) back: i64,
}

/// What the file holds besides.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) lines: u64,
    pub(crate) charges: u64,
    pub(crate) zero_price: u64,
    pub(crate) no_customer: u64,
    pub(crate) giving_back: u64,
    pub(crate) cancellations: u64,
}

#[derive(Debug)]
struct Line<'a> {
    invoice: &'a str,
    code: &'a str,
    quantity: i64,
    unit_price: f64,
    customer: &'a str,
}

impl OrderBook {
    /// Reads `file`, or the bundled sample.
    pub(crate) fn read(file: Option<&Path>) -> Result<Self, Ended> {
        let Some(file) = file else { return Self::parse("the bundled sample", include_bytes!("sample.csv")) };
        let name = file.display().to_string();
        let refused = |error: std::io::Error| Ended::refused(&format!("cannot read {name}"), &error);
        let bytes = std::fs::metadata(file).map_err(refused)?.len();
        if bytes > MAX_BYTES {
            return Err(Ended::Refused(format!("{name} has {bytes} bytes, the limit is {MAX_BYTES}")));
        }
        Self::parse(&name, &std::fs::read(file).map_err(refused)?)
    }

    /// Every stock code of the day, in order.
    pub(crate) fn stock_codes(&self) -> Vec<&str> {
        let mut codes: Vec<&str> =
            self.orders.iter().flat_map(|order| order.moves.keys()).map(String::as_str).collect();
        codes.sort_unstable();
        codes.dedup();
        codes
    }

    fn parse(name: &str, bytes: &[u8]) -> Result<Self, Ended> {
        let mut reader = csv::ReaderBuilder::new().from_reader(bytes);
        let headers = reader.headers().map_err(|error| Ended::refused(&format!("{name}, line 1"), &error))?.clone();
        if headers.iter().ne(COLUMNS) {
            return Err(Ended::Refused(format!("{name}, line 1: the columns must be {}", COLUMNS.join(","))));
        }
        let (mut drafts, mut places) = (Vec::<Draft>::new(), BTreeMap::<String, usize>::new());
        let (mut counts, mut record) = (Counts::default(), csv::StringRecord::new());
        loop {
            let line = reader.position().line();
            if !reader.read_record(&mut record).map_err(|error| unreadable(name, line, &error))? {
                break;
            }
            // After a blank line or inside a quoted one the reader knows better where the record began.
            let line = record.position().map_or(line, csv::Position::line);
            let parsed =
                Line::read(&record).map_err(|problem| Ended::Refused(format!("{name}, line {line}: {problem}")))?;
            parsed.check().map_err(|problem| Ended::Refused(format!("{name}, line {line}: {problem}")))?;
            counts.add(&parsed);
            let place = *places.entry(parsed.invoice.to_owned()).or_insert(drafts.len());
            if place == drafts.len() {
                counts.cancellations += u64::from(parsed.invoice.starts_with('C'));
                drafts.push(Draft { invoice: parsed.invoice.to_owned(), ..Draft::default() });
            }
            drafts[place]
                .add(&parsed, &record)
                .ok_or_else(|| Ended::Refused(format!("{name}, line {line}: the units add up to too many")))?;
        }
        if drafts.is_empty() {
            return Err(Ended::Refused(format!("{name} holds no orders")));
        }
        let sha256 = format!("{:x}", Sha256::digest(bytes));
        let orders = drafts.into_iter().map(|draft| Arc::new(draft.finish())).collect();
        Ok(Self { orders, counts, sha256 })
    }
}

/// A line that is not CSV of the right width.
fn unreadable(name: &str, line: u64, error: &csv::Error) -> Ended {
    let line = error.position().map_or(line, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            Ended::Refused(format!("{name}, line {line}: {len} fields, {expected_len} expected"))
        }
        csv::ErrorKind::Utf8 { .. } => Ended::Refused(format!("{name}, line {line}: not UTF-8")),
        _ => Ended::refused(&format!("{name}, line {line}"), error),
    }
}

impl Order {
    /// All its units.
    pub(crate) fn units(&self) -> Move {
        let add = |sum: Move, moved: &Move| Move { out: sum.out + moved.out, back: sum.back + moved.back };
        self.moves.values().fold(Move::default(), add)
    }
}

impl<'a> Line<'a> {
    /// The columns by their place: the header was checked.
    fn read(record: &'a csv::StringRecord) -> Result<Self, String> {
        let field = |place: usize| record.get(place).ok_or_else(|| format!("{} is missing", COLUMNS[place]));
        let (quantity, unit_price) = (field(3)?, field(5)?);
        Ok(Self {
            invoice: field(0)?,
            code: field(1)?,
            quantity: quantity.parse().map_err(|_| format!("Quantity: {quantity:?} is not a whole number"))?,
            unit_price: unit_price.parse().map_err(|_| format!("UnitPrice: {unit_price:?} is not a number"))?,
            customer: field(6)?,
        })
    }

    fn is_charge(&self) -> bool {
        CHARGES.iter().any(|charge| charge.eq_ignore_ascii_case(self.code))
    }

    fn check(&self) -> Result<(), String> {
        if self.invoice.is_empty() || self.invoice.len() > 64 || !self.invoice.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(format!("{:?} is not an invoice number", self.invoice));
        }
        if self.code.is_empty() || self.code.len() > 64 || self.code.chars().any(char::is_control) {
            return Err(format!("{:?} is not a stock code", self.code));
        }
        if !self.unit_price.is_finite() {
            return Err(format!("{} is not a price", self.unit_price));
        }
        if self.quantity.unsigned_abs() > 1_000_000_000 {
            return Err(format!("{} is not a quantity: at most 1,000,000,000", self.quantity));
        }
        Ok(())
    }
}

impl Counts {
    fn add(&mut self, line: &Line<'_>) {
        self.lines += 1;
        self.charges += u64::from(line.is_charge());
        self.zero_price += u64::from(line.unit_price == 0.0);
        self.no_customer += u64::from(line.customer.is_empty());
        self.giving_back += u64::from(line.quantity < 0);
    }
}

/// An order whose lines are still being read.
#[derive(Debug, Default)]
struct Draft {
    invoice: String,
    fields: Vec<String>,
    moves: BTreeMap<String, Move>,
}

impl Draft {
    /// Adds a line; `None` if its code's units overflow.
    fn add(&mut self, line: &Line<'_>, record: &csv::StringRecord) -> Option<()> {
        self.fields.extend(record.iter().map(str::to_owned));
        if line.is_charge() || line.quantity == 0 {
            return Some(());
        }
        let moved = self.moves.entry(line.code.to_owned()).or_default();
        let sum = if line.quantity > 0 { &mut moved.out } else { &mut moved.back };
        *sum = sum.checked_add(line.quantity.abs()).filter(|&units| units <= 1_000_000_000_000)?;
        Some(())
    }

    fn finish(self) -> Order {
        Order { fingerprint: Fingerprint::of_parts(&self.fields), invoice: self.invoice, moves: self.moves }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country\n";

    fn parse(lines: &str) -> Result<OrderBook, Ended> {
        OrderBook::parse("test.csv", format!("{HEAD}{lines}").as_bytes())
    }

    #[test]
    fn lines_of_one_code_add_up_and_charges_move_nothing() {
        let day =
            "1,85123A,X,2,d,1.0,7,UK\n1,85123a,X,1,d,0.0,,UK\n1,85123A,\"A, B\",3,d,1.0,7,UK\n1,post,P,1,d,9,7,UK\n";
        let orders = parse(day).unwrap();
        let moves: Vec<_> = orders.orders[0].moves.iter().map(|(code, moved)| (code.as_str(), moved.out)).collect();
        assert_eq!(moves, [("85123A", 5), ("85123a", 1)]);
        assert_eq!((orders.counts.charges, orders.counts.zero_price, orders.counts.no_customer), (1, 1, 1));
    }

    #[test]
    fn negative_lines_give_back() {
        let orders = parse("C1,A,X,-2,d,1.0,7,UK\n2,A,damaged,-5,d,0.0,,UK\n").unwrap();
        assert_eq!(orders.orders.len(), 2);
        assert_eq!(orders.orders[1].moves["A"], Move { out: 0, back: 5 });
        assert_eq!((orders.counts.cancellations, orders.counts.giving_back), (1, 2));
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named_by_number() {
        for (lines, number) in [
            ("1,A,X,2,d,1.0,7,UK\n1,A,X,two,d,1.0,7,UK\n", "line 3"),
            ("1,A,X,2,d,1.0,7,UK\n1,A,X\n", "line 3"),
            ("1,A,\"two\nlines\",2,d,1.0,7,UK\n,A,X,2,d,1.0,7,UK\n", "line 4"),
        ] {
            let Err(Ended::Refused(reason)) = parse(lines) else { panic!("{lines}") };
            assert!(reason.contains(number), "{reason}");
        }
    }

    #[test]
    fn the_bundled_sample_has_every_quirk() {
        let orders = OrderBook::read(None).unwrap();
        let Counts { charges, zero_price, no_customer, giving_back, cancellations, lines } = orders.counts;
        for count in [charges, zero_price, no_customer, giving_back, cancellations, lines] {
            assert!(count > 0);
        }
        let codes = orders.stock_codes();
        assert!(codes.contains(&"10112A") && codes.contains(&"10112a"));
    }
}
