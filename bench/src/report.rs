//! The tables.

use std::fmt::{self, Write};

use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use leastlock_testkit::TestDatabase;
use serde::Serialize;

use crate::contest::{Comparison, Entry, Round};
use crate::engine::BenchEngine;
use crate::options::Options;
use crate::sheet::Sheet;
use crate::statistics::Spread;

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
    /// What the ratio beside a contender is.
    pub(crate) ratio: &'static str,
    /// What the processor time is of; `None` if it is not reported, nor conflicts and what was oversold.
    pub(crate) cpu: Option<&'static str>,
    /// In the order in which they ran.
    pub(crate) comparisons: Vec<Comparison>,
    /// What was measured otherwise.
    pub(crate) sheets: Vec<Sheet>,
    /// The ratios that the project aims at, and what else the scenario is about.
    pub(crate) aims: Vec<Aim>,
    /// What has to be known beside: a sentence each.
    pub(crate) notes: Vec<String>,
}

/// A line of the summary.
#[derive(Debug, Serialize)]
pub(crate) struct Aim {
    /// Of what, by what; or of what, in which unit.
    pub(crate) what: String,
    /// Over the rounds.
    pub(crate) value: Spread,
}

impl Report {
    /// A report without comparisons as yet, made before the load begins.
    pub(crate) async fn begin<DB: BenchEngine>(
        scenario: &'static str,
        command: String,
        options: &Options,
        database: &TestDatabase<DB>,
    ) -> anyhow::Result<Self> {
        let mut connection = database.pool.acquire().await?;
        let about =
            DB::fetch_query(&mut connection, sqlx::query(DB::ABOUT)).await?.context("the server has no version")?;
        Self::on(scenario, command, options, about.text(0)?, about.text(1)?)
    }

    /// The same, on engines that were asked otherwise.
    pub(crate) fn on(
        scenario: &'static str,
        command: String,
        options: &Options,
        engine: String,
        date: String,
    ) -> anyhow::Result<Self> {
        let report = Self {
            scenario,
            command,
            engine,
            date,
            cores: std::thread::available_parallelism()?.get(),
            load_before: load_average(),
            quotable: options.is_quotable(),
            ratio: "ratio",
            cpu: None,
            comparisons: Vec::new(),
            sheets: Vec::new(),
            aims: Vec::new(),
            notes: Vec::new(),
        };
        eprintln!("{}\n{}", report.command, report.circumstances());
        Ok(report)
    }

    /// The tables as Markdown, under the command that makes them.
    pub(crate) fn markdown(&self) -> String {
        let (command, circumstances) = (&self.command, self.circumstances());
        let mut text = format!("```sh\n{command}\n```\n\n{circumstances}\n");
        for mut table in self.tables() {
            table.load_preset(presets::ASCII_MARKDOWN);
            // Writing into a string cannot fail.
            let _ = write!(text, "\n{table}\n");
        }
        text
    }

    /// The contenders that gave away what was not there, except for those that are there to show it.
    pub(crate) fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for comparison in &self.comparisons {
            for entry in comparison.entries.iter().filter(|entry| entry.oversold() > 0 && !entry.is_wrong_on_purpose) {
                let Comparison { measure, clients, .. } = comparison;
                wrong.push(format!("{}, clients: {clients}, {measure}: oversold {}", entry.name, entry.oversold()));
            }
        }
        wrong
    }

    fn circumstances(&self) -> String {
        let load =
            self.load_before.as_ref().map_or(String::new(), |load| format!(", load average {load} before the run"));
        let mut text = format!("{}, {}, {} cores{load}.", self.date, self.engine, self.cores);
        if !self.quotable {
            text.push_str(" Fewer than 5 rounds: not to be quoted.");
        }
        // Writing into a string cannot fail.
        if let Some(cpu) = self.cpu {
            let _ = write!(text, " Processor time: {cpu}.");
        }
        let mut queues: Vec<_> = self.comparisons.iter().map(|one| (one.clients, one.connections)).collect();
        queues.retain(|(clients, connections)| connections < clients);
        queues.sort_unstable();
        queues.dedup();
        for (clients, connections) in queues {
            let noun = if connections == 1 { "connection" } else { "connections" };
            let _ = write!(text, " {clients} clients queued for {connections} {noun}.");
        }
        for note in &self.notes {
            let _ = write!(text, " {note}");
        }
        text
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables: Vec<_> = self.sheets.iter().map(Sheet::table).collect();
        if !self.comparisons.is_empty() {
            tables.push(self.contenders());
        }
        if !self.aims.is_empty() {
            tables.push(self.summary());
        }
        tables
    }

    fn contenders(&self) -> Table {
        let mut table = Table::new();
        let mut header = vec!["operation", "clients", "contender", "ops/s", "p50 ms", "p99 ms", self.ratio];
        if self.cpu.is_some() {
            header.extend(["conflicts/op", "gave up", "CPU s/1000 ops", "oversold"]);
        }
        let columns = header.len();
        table.set_header(header);
        for comparison in &self.comparisons {
            for entry in &comparison.entries {
                let mut row = speed(comparison, entry);
                if self.cpu.is_some() {
                    row.extend(entry.cost());
                }
                table.add_row(row);
            }
        }
        for column in (1..columns).filter(|column| *column != 2) {
            align_right(&mut table, column);
        }
        table
    }

    fn summary(&self) -> Table {
        let mut table = Table::new();
        table.set_header(["summary", "median (from–to)"]);
        for aim in &self.aims {
            table.add_row([aim.what.clone(), in_digits(aim.value)]);
        }
        align_right(&mut table, 1);
        table
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}\n{}", self.command, self.circumstances())?;
        for mut table in self.tables() {
            table.load_preset(presets::UTF8_FULL_CONDENSED);
            write!(formatter, "\n{table}")?;
        }
        Ok(())
    }
}

impl Comparison {
    /// The ratio that is reported beside an entry, round by round; `None` if it has none, or the other did not run.
    pub(crate) fn ratio(&self, entry: &Entry) -> Option<Spread> {
        let quotient = entry.quotient?;
        let values = |name| {
            let entry = self.entries.iter().find(|entry| entry.name == name)?;
            Some(entry.values(|round| round.per_second))
        };
        Spread::of_ratios(&values(quotient.of)?, &values(quotient.by)?)
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

    /// Conflicts an operation, calls that gave up, processor time of 1,000 operations, and what was oversold.
    fn cost(&self) -> [String; 4] {
        let cpu = self.rounds.iter().filter_map(Round::cpu_of_a_thousand).collect::<Vec<_>>();
        let gave_up: u64 = self.rounds.iter().map(|round| round.gave_up).sum();
        let (conflicts, gave_up) = if self.retries {
            (format!("{:.2}", self.median(Round::conflicts_an_operation)), gave_up.to_string())
        } else {
            (String::new(), String::new())
        };
        let cpu = Spread::of(cpu).map_or("n/a".to_owned(), |spread| format!("{:.4}", spread.median));
        [conflicts, gave_up, cpu, self.oversold().to_string()]
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a round are far below 2^53")]
impl Round {
    fn conflicts_an_operation(&self) -> f64 {
        self.conflicts as f64 / self.operations as f64
    }

    fn cpu_of_a_thousand(&self) -> Option<f64> {
        Some(self.cpu_seconds? * 1000.0 / self.operations as f64)
    }
}

fn speed(comparison: &Comparison, entry: &Entry) -> Vec<String> {
    vec![
        comparison.measure.to_owned(),
        comparison.clients.to_string(),
        entry.name.to_owned(),
        format!("{:.0}", entry.median(|round| round.per_second)),
        format!("{:.2}", entry.median(|round| round.p50_us) / 1000.0),
        format!("{:.2}", entry.median(|round| round.p99_us) / 1000.0),
        comparison.ratio(entry).map_or(String::new(), in_digits),
    ]
}

fn in_digits(Spread { median, min, max }: Spread) -> String {
    let largest = median.abs().max(min.abs()).max(max.abs());
    let decimals = match median {
        _ if largest >= 100.0 => 0,
        // A hundredth part is told from a fiftieth.
        small if small < 0.1 => 4,
        _ => 2,
    };
    format!("{median:.decimals$} ({min:.decimals$}–{max:.decimals$})")
}

fn align_right(table: &mut Table, column: usize) {
    if let Some(column) = table.column_mut(column) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

fn load_average() -> Option<String> {
    let line = std::fs::read_to_string("/proc/loadavg").ok()?;
    line.split_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
pub(crate) mod tests;
