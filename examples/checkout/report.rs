//! What is shown while a run goes on, and the table at its end.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use leastlock::outbox::Stats;

use crate::ledger::Ledger;
use crate::orders::{Move, OrderBook};
use crate::reconciliation::Books;
use crate::shop::Receipt;
use crate::storm::Storm;

/// Three bars: requests answered, events published, events in the ledger. Hidden where stderr is not a terminal.
pub(crate) struct Bars {
    answered: ProgressBar,
    published: ProgressBar,
    ledger: ProgressBar,
}

impl Bars {
    pub(crate) fn new(requests: u64) -> Self {
        let bars = MultiProgress::new();
        let style = "{msg:>22} {wide_bar} {pos:>7}/{len:7} {rate:>9}";
        let rate = |state: &ProgressState, text: &mut dyn Write| {
            // Writing to the bar's own buffer cannot fail.
            let _ = write!(text, "{:.0}/s", state.per_sec());
        };
        let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
        let style = style.with_key("rate", rate);
        let bar = |message: &'static str, length| {
            bars.add(ProgressBar::new(length).with_style(style.clone()).with_message(message))
        };
        Self {
            answered: bar("requests answered", requests),
            published: bar("events published", 0),
            ledger: bar("events in the ledger", 0),
        }
    }

    pub(crate) fn show(&self, storm: &Storm, relay: &Stats, [appended, in_ledger]: [u64; 2]) {
        self.answered.set_position(storm.answered.load(Relaxed));
        // A relay that takes over publishes some events again.
        self.published.set_length(appended.max(relay.published()));
        self.published.set_position(relay.published());
        self.ledger.set_length(appended);
        self.ledger.set_position(in_ledger);
    }

    pub(crate) fn clear(&self) {
        for bar in [&self.answered, &self.published, &self.ledger] {
            bar.finish_and_clear();
        }
    }
}

/// What the table needs to know of a run.
pub(crate) struct Day<'a> {
    pub(crate) orders: &'a OrderBook,
    pub(crate) storm: &'a Storm,
    pub(crate) receipts: &'a [Option<Receipt>],
    pub(crate) books: &'a Books,
    pub(crate) relay: &'a Stats,
    pub(crate) ledger: &'a Ledger,
    pub(crate) clients_took: Duration,
    pub(crate) took: Duration,
    pub(crate) seed: u64,
}

impl Day<'_> {
    pub(crate) fn table(&self) -> Table {
        let receipts = || self.receipts.iter().flatten();
        let placed = receipts().filter(|receipt| matches!(receipt, Receipt::Placed { .. })).count();
        let refused = receipts().count() - placed;
        let counts = &self.orders.counts;
        let Move { out, back } = self.books.units();
        let answered = self.storm.answered.load(Relaxed);
        let rows = [
            ("lines read", counts.lines.to_string()),
            ("  charges, which move no stock", counts.charges.to_string()),
            ("  giving stock back", counts.giving_back.to_string()),
            ("  without a price", counts.zero_price.to_string()),
            ("  without a customer", counts.no_customer.to_string()),
            ("orders", self.orders.orders.len().to_string()),
            ("  cancellations among them", counts.cancellations.to_string()),
            ("  placed", placed.to_string()),
            ("  refused", refused.to_string()),
            ("requests answered", answered.to_string()),
            ("  replayed", self.storm.replayed.load(Relaxed).to_string()),
            ("  sent again after an error or a wait", self.storm.retried.load(Relaxed).to_string()),
            ("requests a second", format!("{:.0}", per_second(answered, self.clients_took))),
            ("units out", out.to_string()),
            ("units back", back.to_string()),
            ("events", self.books.events().to_string()),
            ("  published by this relay", self.relay.published().to_string()),
            ("  applied to the ledger by this worker", self.ledger.applied().to_string()),
            ("  repeats absorbed by the ledger", self.ledger.repeated().to_string()),
            ("relay lag, mean", format!("{} ms", self.relay.mean_lag().as_millis())),
            ("relay lag, longest", format!("{} ms", self.relay.max_lag().as_millis())),
            ("whole run", format!("{:.1} s", self.took.as_secs_f64())),
            ("seed", self.seed.to_string()),
        ];
        let mut table = Table::new();
        table.load_preset(UTF8_BORDERS_ONLY);
        for (name, figure) in rows {
            table.add_row([name.to_owned(), figure]);
        }
        if let Some(figures) = table.column_mut(1) {
            figures.set_cell_alignment(CellAlignment::Right);
        }
        table
    }
}

/// Precise enough for a table: no count here comes near 2^52.
#[expect(clippy::cast_precision_loss, reason = "a throughput is rounded to whole requests")]
fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(0.001)
}
