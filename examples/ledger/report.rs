//! What a run tells: a line that changes, and a table.

use std::collections::BTreeMap;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};

/// How far the ledger has come.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    pub(crate) fn of(entries: u64) -> Self {
        let bar = ProgressBar::new(entries);
        // A template that does not parse leaves the default one.
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} entries posted {msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    pub(crate) fn show(&self, posted: &BTreeMap<String, u64>) {
        let of_each: Vec<_> = posted.iter().map(|(worker, postings)| format!("{worker}: {postings}")).collect();
        self.0.set_position(posted.values().sum());
        self.0.set_message(format!("({})", of_each.join(", ")));
    }

    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}

/// What a run came to.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) entries: u64,
    pub(crate) accounts: u64,
    pub(crate) posted: BTreeMap<String, u64>,
    pub(crate) refused: u64,
    pub(crate) killed: Option<Killed>,
    pub(crate) took: Duration,
}

/// A worker that was killed.
#[derive(Debug, Clone)]
pub(crate) struct Killed {
    pub(crate) worker: String,
    /// Postings in all at that moment.
    pub(crate) at: u64,
    pub(crate) until_all_posted: Duration,
}

impl Figures {
    pub(crate) fn table(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::UTF8_BORDERS_ONLY);
        let mut line = |what: &str, figure: String| {
            table.add_row([what.to_owned(), figure]);
        };
        line("entries", self.entries.to_string());
        line("accounts", self.accounts.to_string());
        for (worker, postings) in &self.posted {
            line(&format!("postings of worker {worker}"), postings.to_string());
        }
        line("withdrawals refused", self.refused.to_string());
        if let Some(Killed { worker, at, until_all_posted }) = &self.killed {
            line(&format!("postings when worker {worker} was killed"), at.to_string());
            line("from the kill to the last posting, s", format!("{:.1}", until_all_posted.as_secs_f64()));
        }
        line("the whole run, s", format!("{:.1}", self.took.as_secs_f64()));
        if let Some(column) = table.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        table.to_string()
    }
}
