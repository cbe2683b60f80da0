//! The tables.

use std::fmt;

use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use leastlock_testkit::TestDatabase;
use serde::Serialize;

use crate::contest::{Comparison, Entry, Round};
use crate::engine::BenchEngine;
use crate::options::Options;
use crate::statistics::Spread;

const HEADER: [&str; 7] = ["operation", "clients", "contender", "ops/s", "p50 ms", "p99 ms", "leastlock / this"];

/// Everything that a run found out.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The scenario.
    pub(crate) scenario: &'static str,
    /// The line that repeats the run.
    command: String,
    /// Engine and version.
    pub(crate) engine: String,
    date: String,
    cores: usize,
    /// What else the machine did when the run began: the load average of the last minute, where there is one.
    load_before: Option<String>,
    quotable: bool,
    /// In the order in which they ran.
    pub(crate) comparisons: Vec<Comparison>,
}

impl Report {
    /// A report without comparisons as yet, made before the load begins.
    pub(crate) async fn begin<DB: BenchEngine>(
        scenario: &'static str,
        options: &Options,
        database: &TestDatabase<DB>,
    ) -> anyhow::Result<Self> {
        let mut connection = database.pool.acquire().await?;
        let about =
            DB::fetch_query(&mut connection, sqlx::query(DB::ABOUT)).await?.context("the server has no version")?;
        let report = Self {
            scenario,
            command: options.command(scenario),
            engine: format!("{} {}", DB::NAME, about.text(0)?),
            date: about.text(1)?,
            cores: std::thread::available_parallelism()?.get(),
            load_before: load_average(),
            quotable: options.is_quotable(),
            comparisons: Vec::new(),
        };
        eprintln!("{}\n{}", report.command, report.circumstances());
        Ok(report)
    }

    /// The table as Markdown, under the command that makes it.
    pub(crate) fn markdown(&self) -> String {
        let mut table = self.table();
        table.load_preset(presets::ASCII_MARKDOWN);
        format!("```sh\n{}\n```\n\n{}\n\n{table}", self.command, self.circumstances())
    }

    fn circumstances(&self) -> String {
        let load =
            self.load_before.as_ref().map_or(String::new(), |load| format!(", load average {load} before the run"));
        let warning = if self.quotable { "" } else { " Fewer than 5 rounds: not to be quoted." };
        format!("{}, {}, {} cores{load}.{warning}", self.date, self.engine, self.cores)
    }

    fn table(&self) -> Table {
        let mut table = Table::new();
        table.set_header(HEADER);
        for comparison in &self.comparisons {
            for entry in &comparison.entries {
                table.add_row(row(comparison, entry));
            }
        }
        for column in [1, 3, 4, 5, 6] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = self.table();
        table.load_preset(presets::UTF8_FULL_CONDENSED);
        write!(formatter, "{}\n{}\n{table}", self.command, self.circumstances())
    }
}

impl Comparison {
    /// Throughput of the product divided by that of `entry`, round by round; `None` for the product itself.
    pub(crate) fn ratio(&self, entry: &Entry) -> Option<Spread> {
        let product = self.entries.first().filter(|product| product.name != entry.name)?;
        Spread::of_ratios(&product.values(|round| round.per_second), &entry.values(|round| round.per_second))
    }
}

impl Entry {
    /// One value of each round.
    pub(crate) fn values(&self, value: impl Fn(&Round) -> f64) -> Vec<f64> {
        self.rounds.iter().map(value).collect()
    }

    fn median(&self, value: impl Fn(&Round) -> f64) -> f64 {
        Spread::of(self.values(value)).map_or(f64::NAN, |spread| spread.median)
    }
}

fn row(comparison: &Comparison, entry: &Entry) -> [String; 7] {
    let ratio = comparison.ratio(entry);
    [
        comparison.measure.to_owned(),
        comparison.clients.to_string(),
        entry.name.to_owned(),
        format!("{:.0}", entry.median(|round| round.per_second)),
        format!("{:.2}", entry.median(|round| round.p50_us) / 1000.0),
        format!("{:.2}", entry.median(|round| round.p99_us) / 1000.0),
        ratio.map_or(String::new(), |ratio| format!("{:.2} ({:.2}–{:.2})", ratio.median, ratio.min, ratio.max)),
    ]
}

fn load_average() -> Option<String> {
    let line = std::fs::read_to_string("/proc/loadavg").ok()?;
    line.split_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn entry(name: &'static str, per_second: [f64; 3]) -> Entry {
        let round = |per_second| Round { operations: 10, seconds: 1.0, per_second, p50_us: 1500.0, p99_us: 9000.0 };
        Entry { name, rounds: per_second.map(round).into() }
    }

    /// Two measures at two numbers of clients.
    pub(crate) fn report() -> Report {
        let entries = vec![entry("leastlock", [90.0, 95.0, 99.0]), entry("by hand", [100.0, 100.0, 100.0])];
        let comparison = |(measure, clients)| Comparison { measure, clients, entries: entries.clone() };
        Report {
            scenario: "example",
            command: "cargo run".to_owned(),
            engine: "SQLite 3".to_owned(),
            date: "2026-11-29".to_owned(),
            cores: 2,
            load_before: Some("0.10".to_owned()),
            quotable: false,
            comparisons: [("one", 1), ("one", 16), ("two", 1), ("two", 16)].map(comparison).into(),
        }
    }

    #[test]
    fn table_has_the_ratio_beside_the_base_only() {
        let markdown = report().markdown();
        let rows: Vec<_> = markdown.lines().filter(|line| line.starts_with("| two") && line.contains(" 16 ")).collect();
        let cells = |row: &str| row.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
        assert_eq!(cells(rows[0]), ["", "two", "16", "leastlock", "95", "1.50", "9.00", "", ""]);
        assert_eq!(cells(rows[1]), ["", "two", "16", "by hand", "100", "1.50", "9.00", "0.95 (0.90–0.99)", ""]);
    }

    #[test]
    fn too_few_rounds_are_said_to_be_too_few() {
        assert!(report().to_string().contains("2 cores, load average 0.10 before the run. Fewer than 5 rounds"));
    }
}
