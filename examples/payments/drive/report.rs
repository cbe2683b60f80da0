//! The progress bar, and the table at the end.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::Drive;
use crate::books::Books;
use crate::drive::clients::Clients;
use crate::drive::keeper::Blows;

/// Copies answered. Hidden where stderr is not a terminal.
pub(crate) fn bar(copies: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:>18} {wide_bar} {pos:>7}/{len:7} {per_sec:>10}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(copies).with_style(style).with_message("requests answered")
}

/// What the table needs to know of a drive.
pub(crate) struct Driven<'a> {
    pub(crate) args: &'a Drive,
    pub(crate) seed: u64,
    pub(crate) clients: &'a Clients,
    pub(crate) books: &'a Books,
    pub(crate) blows: Blows,
    pub(crate) stormed_for: Duration,
    pub(crate) took: Duration,
}

impl Driven<'_> {
    pub(crate) fn table(&self) -> Table {
        let Self { args, clients, books, blows, .. } = self;
        let stock = |of: fn(&crate::books::StockRow) -> i64| books.stock.iter().map(of).sum::<i64>().to_string();
        let rows = [
            ("payments", args.payments.to_string()),
            ("  paid", books.in_state("paid").to_string()),
            ("  declined", books.in_state("cancelled").to_string()),
            ("  sold out", clients.sold_out().to_string()),
            ("requests answered", clients.answered().borrow().to_string()),
            ("  replayed", clients.replayed.load(Relaxed).to_string()),
            ("  sent again after no final answer", clients.asked_again.load(Relaxed).to_string()),
            ("  hung up by the client", clients.hung_up.load(Relaxed).to_string()),
            ("kills of the service", blows.kills.to_string()),
            ("  keys claimed at those moments", blows.claims_cut.to_string()),
            ("stops for longer than the lease", blows.stops.to_string()),
            ("  keys that went to others meanwhile", blows.claims_lost.to_string()),
            ("charges at the provider", books.charges.len().to_string()),
            ("  keys that it saw", books.seen.len().to_string()),
            ("  calls with a key that it had seen", books.repeated_calls().to_string()),
            ("outcomes resolved by the reconciler", books.resolved.to_string()),
            ("units opening", stock(|stock| stock.opening)),
            ("  in stock", stock(|stock| stock.units)),
            ("  given back", stock(|stock| stock.given_back)),
            ("events", books.events.len().to_string()),
            ("policy", args.policy.name().to_owned()),
            ("clients took", format!("{:.1} s", self.stormed_for.as_secs_f64())),
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
