//! What is shown while a run goes on, and the table at its end.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use leastlock::outbox::Stats;

use crate::ledger::Ledger;
use crate::orders::{Move, OrderBook};
use crate::storm::Storm;

/// Below this a rate tells of the first connections and of what else the machine did, and of the forms nothing.
const WORTH_COMPARING: Duration = Duration::from_secs(5);

/// Three bars: requests answered, events published, events in the ledger. Hidden where stderr is not a terminal.
pub(crate) struct Bars {
    answered: ProgressBar,
    published: ProgressBar,
    ledger: ProgressBar,
}

impl Bars {
    pub(crate) fn new(form: &'static str, requests: u64) -> Self {
        let bars = MultiProgress::new();
        let style = "{prefix:>8} {msg:>22} {wide_bar} {pos:>7}/{len:7} {rate:>9}";
        let rate = |state: &ProgressState, text: &mut dyn Write| {
            // Writing to the bar's own buffer cannot fail.
            let _ = write!(text, "{:.0}/s", state.per_sec());
        };
        let style = ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar());
        let style = style.with_key("rate", rate);
        let bar = |message: &'static str, length| {
            bars.add(ProgressBar::new(length).with_style(style.clone()).with_prefix(form).with_message(message))
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

/// What the plain form came to, for the table of the combined one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain {
    pub(crate) requests_a_second: f64,
    pub(crate) clients_took: Duration,
}

/// What the table tells of a day.
pub(crate) struct Report {
    pub(crate) orders: Arc<OrderBook>,
    pub(crate) placed: usize,
    pub(crate) refused: usize,
    pub(crate) answered: u64,
    /// Answers that came to be in this run; all others are repeats.
    pub(crate) first_answers: u64,
    pub(crate) retried: u64,
    pub(crate) units: Move,
    pub(crate) events: i64,
    pub(crate) relay: Stats,
    pub(crate) ledger: Ledger,
    pub(crate) clients_took: Duration,
    pub(crate) took: Duration,
    pub(crate) seed: u64,
}

impl Report {
    pub(crate) fn answered(&self) -> u64 {
        self.answered
    }

    pub(crate) fn requests_a_second(&self) -> f64 {
        per_second(self.answered, self.clients_took)
    }

    /// What is remembered of this day, as one of the plain form.
    pub(crate) fn as_plain(&self) -> Plain {
        Plain { requests_a_second: self.requests_a_second(), clients_took: self.clients_took }
    }

    /// What is to be said of the ratio, if there is one and a form was done too soon for it to mean anything.
    pub(crate) fn too_short(&self, plain: Option<Plain>) -> Option<String> {
        let plain = plain?.clients_took;
        (plain.min(self.clients_took) < WORTH_COMPARING).then(|| {
            format!(
                "the ratio says nothing: the clients were done in {:.1} s (plain) and {:.1} s (combined), and rates of less than \
                 {} s do not tell the forms apart; give --orders a longer file, and more --clients",
                plain.as_secs_f64(),
                self.clients_took.as_secs_f64(),
                WORTH_COMPARING.as_secs()
            )
        })
    }

    /// With the rate of the plain form beside it, if that was run.
    pub(crate) fn table(&self, plain: Option<Plain>) -> Table {
        let counts = &self.orders.counts;
        let rate = self.requests_a_second();
        let mut rows = vec![
            ("lines read", counts.lines.to_string()),
            ("  charges, which move no stock", counts.charges.to_string()),
            ("  giving stock back", counts.giving_back.to_string()),
            ("  without a price", counts.zero_price.to_string()),
            ("  without a customer", counts.no_customer.to_string()),
            ("orders", self.orders.orders.len().to_string()),
            ("  cancellations among them", counts.cancellations.to_string()),
            ("  placed", self.placed.to_string()),
            ("  refused", self.refused.to_string()),
            ("requests answered", self.answered.to_string()),
            ("  replayed", self.answered.saturating_sub(self.first_answers).to_string()),
            ("  sent again after an error or a wait", self.retried.to_string()),
            ("requests a second", format!("{rate:.0}")),
        ];
        if let Some(plain) = plain {
            rows.push(("  of the plain form", format!("{:.0}", plain.requests_a_second)));
            rows.push(("  combined / plain", format!("{:.2}", rate / plain.requests_a_second)));
        }
        rows.extend([
            ("units out", self.units.out.to_string()),
            ("units back", self.units.back.to_string()),
            ("events", self.events.to_string()),
            ("  published by this relay", self.relay.published().to_string()),
            ("  applied to the ledger by this worker", self.ledger.applied().to_string()),
            ("  repeats absorbed by the ledger", self.ledger.repeated().to_string()),
            ("relay lag, mean", format!("{} ms", self.relay.mean_lag().as_millis())),
            ("relay lag, longest", format!("{} ms", self.relay.max_lag().as_millis())),
            ("whole run", format!("{:.1} s", self.took.as_secs_f64())),
            ("seed", self.seed.to_string()),
        ]);
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
