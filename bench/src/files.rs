//! CSV, JSON.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use crate::report::Report;

/// One line of the CSV.
#[derive(Debug, Serialize)]
struct Line<'a> {
    scenario: &'a str,
    engine: &'a str,
    operation: &'a str,
    clients: u32,
    connections: u32,
    contender: &'a str,
    round: usize,
    operations: u64,
    seconds: f64,
    operations_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    conflicts: u64,
    gave_up: u64,
    /// Empty where it cannot be read.
    cpu_seconds: Option<f64>,
    oversold: u64,
}

/// One line of the CSV of a scenario that has sheets.
#[derive(Debug, Serialize)]
struct FigureLine<'a> {
    scenario: &'a str,
    engine: &'a str,
    part: &'a str,
    setting: &'a str,
    contender: &'a str,
    round: usize,
    figure: &'a str,
    /// Empty where it cannot be read.
    value: Option<f64>,
}

/// Writes `<scenario>.csv` (a line for each contender's round, or for each figure of one) and `<scenario>.json` (the whole report).
pub(crate) fn write(report: &Report, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let path = folder.join(report.scenario).with_extension("json");
    let json = serde_json::to_vec_pretty(report)?;
    fs::write(&path, json).with_context(|| format!("{} cannot be written", path.display()))?;
    let path = folder.join(report.scenario).with_extension("csv");
    let written = if report.sheets.is_empty() { write_rounds(report, &path) } else { write_figures(report, &path) };
    written.with_context(|| format!("{} cannot be written", path.display()))
}

fn write_figures(report: &Report, path: &Path) -> anyhow::Result<()> {
    let mut csv = csv::Writer::from_path(path)?;
    for sheet in &report.sheets {
        for line in &sheet.lines {
            for (number, round) in line.rounds.iter().enumerate() {
                for (figure, value) in sheet.figures.iter().zip(round) {
                    csv.serialize(FigureLine {
                        scenario: report.scenario,
                        engine: &report.engine,
                        part: sheet.part,
                        setting: &line.setting,
                        contender: line.contender,
                        round: number + 1,
                        figure,
                        value: value.is_finite().then_some(*value),
                    })?;
                }
            }
        }
    }
    Ok(csv.flush()?)
}

fn write_rounds(report: &Report, path: &Path) -> anyhow::Result<()> {
    let mut csv = csv::Writer::from_path(path)?;
    for comparison in &report.comparisons {
        for entry in &comparison.entries {
            for (number, round) in entry.rounds.iter().enumerate() {
                csv.serialize(Line {
                    scenario: report.scenario,
                    engine: &report.engine,
                    operation: comparison.measure,
                    clients: comparison.clients,
                    connections: comparison.connections,
                    contender: entry.name,
                    round: number + 1,
                    operations: round.operations,
                    seconds: round.seconds,
                    operations_per_second: round.per_second,
                    p50_us: round.p50_us,
                    p99_us: round.p99_us,
                    conflicts: round.conflicts,
                    gave_up: round.gave_up,
                    cpu_seconds: round.cpu_seconds,
                    oversold: round.oversold,
                })?;
            }
        }
    }
    Ok(csv.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report;
    use crate::sheet::tests::sheet;

    #[test]
    fn every_round_of_every_contender_is_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let nested = folder.path().join("a/b");
        write(&report(), &nested).unwrap();
        let csv = fs::read_to_string(nested.join("example.csv")).unwrap();
        assert_eq!(csv.lines().count(), 1 + 4 * 2 * 3);
        assert!(
            csv.lines()
                .any(|line| line == "example,SQLite 3,two,16,8,leastlock,2,10,1.0,95.0,1500.0,9000.0,25,2,0.004,0"),
            "{csv}"
        );
        let json: serde_json::Value = serde_json::from_slice(&fs::read(nested.join("example.json")).unwrap()).unwrap();
        assert_eq!(json["comparisons"][3]["entries"][1]["rounds"][0]["per_second"], 100.0);
    }

    #[test]
    fn every_figure_of_every_round_is_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = report();
        report.sheets.push(sheet());
        write(&report, folder.path()).unwrap();
        let csv = fs::read_to_string(folder.path().join("example.csv")).unwrap();
        assert_eq!(csv.lines().count(), 1 + 2 * 2 * 3 * 2);
        for line in ["example,SQLite 3,drain,1 KB,relay,2,events/s,3000.0", "example,SQLite 3,drain,1 KB,loop,1,CPU s,"]
        {
            assert!(csv.lines().any(|found| found == line), "{csv}");
        }
    }
}
