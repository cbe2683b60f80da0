//! The figures of every way, as a table.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use crate::race::Ran;

/// What the last column counts; it is more than what was sold beyond the stock.
const LEGEND: &str =
    "lost: sales of which the row does not know, sold - (stock - left); two buyers wrote the same number";

/// A row a way, in the order in which they ran, and what is counted.
pub(crate) fn table(ran: &[Ran]) -> String {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.set_header(["way", "attempts/s", "sold", "refused", "conflicts", "left", "lost"]);
    for ran in ran {
        table.add_row([
            ran.way.to_owned(),
            format!("{:.0}", ran.per_second()),
            ran.sold.to_string(),
            ran.refused.to_string(),
            ran.conflicts.to_string(),
            ran.left.to_string(),
            ran.oversold.to_string(),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    format!("{table}\n{LEGEND}")
}
