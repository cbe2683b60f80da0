//! What a file of orders says, computed without the program under test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use leastlock_testkit::retail::retail_files;

/// The first line of a file of orders.
pub(crate) const HEAD: &str = "InvoiceNo,StockCode,Description,Quantity,InvoiceDate,UnitPrice,CustomerID,Country\n";
const CHARGES: [&str; 11] = ["POST", "DOT", "M", "D", "C2", "CRUK", "AMAZONFEE", "BANK CHARGES", "S", "B", "PADS"];

/// Units out and back of one stock code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) out: i64,
    pub(crate) back: i64,
}

/// A row of the ledger's CSV.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) sums: Sums,
    pub(crate) remaining: i64,
}

/// The real days, or the bundled sample where there are none.
pub(crate) fn days() -> Vec<PathBuf> {
    let days = retail_files();
    if days.is_empty() {
        vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/checkout/sample.csv")]
    } else {
        days
    }
}

/// The sum of the positive and of the negative lines of each stock code, exactly as the code is written.
pub(crate) fn sums(day: &Path) -> BTreeMap<String, Sums> {
    let mut sums = BTreeMap::<String, Sums>::new();
    for line in csv::Reader::from_path(day).expect("the file is there").records() {
        let line = line.expect("a line");
        let (code, quantity): (&str, i64) = (&line[1], line[3].parse().expect("a quantity"));
        if CHARGES.contains(&code.to_uppercase().as_str()) {
            continue;
        }
        let sum = sums.entry(code.to_owned()).or_default();
        if quantity > 0 { sum.out += quantity } else { sum.back -= quantity }
    }
    sums
}

/// The number of invoices.
pub(crate) fn invoices(day: &Path) -> i64 {
    let lines = csv::Reader::from_path(day).expect("the file is there").into_records();
    let invoices: BTreeSet<String> = lines.map(|line| line.expect("a line")[0].to_owned()).collect();
    invoices.len().try_into().expect("a day's invoices")
}

/// The ledger that the program wrote.
pub(crate) fn ledger(file: &Path) -> BTreeMap<String, Row> {
    let mut reader = csv::Reader::from_path(file).expect("the ledger is there");
    assert_eq!(reader.headers().expect("headers"), vec!["stock_code", "units_out", "units_back", "remaining"]);
    let row = |line: Result<csv::StringRecord, csv::Error>| {
        let (code, out, back, remaining) = line.expect("a line").deserialize(None).expect("a row");
        (code, Row { sums: Sums { out, back }, remaining })
    };
    reader.records().map(row).collect()
}
