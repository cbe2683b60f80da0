//! Figures of contenders that were given so much to do, instead of so much time to do operations in.

use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use crate::report::Aim;
use crate::statistics::Spread;

/// A table of figures: a line for each setting and contender.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sheet {
    /// What was measured.
    pub(crate) part: &'static str,
    /// The figures' names and units. The first one's ratio to the base is shown.
    pub(crate) figures: Vec<&'static str>,
    /// The contender that others are divided by, if there is one.
    pub(crate) base: Option<&'static str>,
    /// In the order of their first turns.
    pub(crate) lines: Vec<Line>,
}

/// One contender in one setting.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Line {
    /// What it had to do.
    pub(crate) setting: String,
    /// Who did it.
    pub(crate) contender: &'static str,
    /// The figures of each round; what cannot be read is not a number.
    pub(crate) rounds: Vec<Vec<f64>>,
}

impl Sheet {
    /// A sheet without lines as yet.
    pub(crate) fn new(part: &'static str, base: Option<&'static str>, figures: &[&'static str]) -> Self {
        Self { part, base, figures: figures.to_vec(), lines: Vec::new() }
    }

    /// Notes what a contender did in a round.
    pub(crate) fn note(&mut self, setting: &str, contender: &'static str, figures: Vec<f64>) {
        assert_eq!(figures.len(), self.figures.len(), "each figure has a value");
        match self.lines.iter_mut().find(|line| line.setting == setting && line.contender == contender) {
            Some(line) => line.rounds.push(figures),
            None => self.lines.push(Line { setting: setting.to_owned(), contender, rounds: vec![figures] }),
        }
    }

    /// The settings, in the order of their first turns.
    pub(crate) fn settings(&self) -> Vec<&str> {
        let mut settings = Vec::new();
        for line in &self.lines {
            if !settings.contains(&line.setting.as_str()) {
                settings.push(&line.setting);
            }
        }
        settings
    }

    /// A figure of each round.
    pub(crate) fn values(&self, setting: &str, contender: &str, figure: &str) -> Option<Vec<f64>> {
        let place = self.figures.iter().position(|name| *name == figure)?;
        let line = self.lines.iter().find(|line| line.setting == setting && line.contender == contender)?;
        Some(line.rounds.iter().map(|round| round[place]).collect())
    }

    /// The ratio of a figure of two contenders in one setting, round by round.
    pub(crate) fn ratio(&self, setting: &str, figure: &str, of: &str, by: &str, aim: &str) -> Option<Aim> {
        let (of_values, by_values) = (self.values(setting, of, figure)?, self.values(setting, by, figure)?);
        let value = Spread::of_ratios(&of_values, &by_values).filter(|spread| spread.median.is_finite())?;
        let aim = if aim.is_empty() { String::new() } else { format!(" ({aim})") };
        Some(Aim { what: format!("{}, {setting}: {figure}, {of} / {by}{aim}", self.part), value })
    }

    /// Medians, and the ratio of the first figure to the base's.
    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new();
        let header = [self.part, "contender"].into_iter().chain(self.figures.iter().copied()).map(str::to_owned);
        let ratio = self.base.and_then(|base| Some(format!("{} / {base}", self.figures.first()?)));
        table.set_header(header.chain(ratio));
        for line in &self.lines {
            let mut row = vec![line.setting.clone(), line.contender.to_owned()];
            for figure in 0..self.figures.len() {
                let median = Spread::of(line.rounds.iter().map(|round| round[figure]));
                row.push(median.map_or(String::new(), |spread| in_digits(spread.median)));
            }
            row.extend(self.base.map(|base| self.ratio_of(line, base).unwrap_or_default()));
            table.add_row(row);
        }
        for column in 2..self.figures.len() + 3 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }

    fn ratio_of(&self, line: &Line, base: &str) -> Option<String> {
        if line.contender == base {
            return None;
        }
        let ratio = self.ratio(&line.setting, self.figures.first()?, line.contender, base, "")?.value;
        Some(format!("{:.2} ({:.2}–{:.2})", ratio.median, ratio.min, ratio.max))
    }
}

fn in_digits(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "n/a".to_owned(),
        100.0.. => format!("{value:.0}"),
        whole if whole.fract() == 0.0 => format!("{value:.0}"),
        0.1.. => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Two contenders in two settings.
    pub(crate) fn sheet() -> Sheet {
        let mut sheet = Sheet::new("drain", Some("loop"), &["events/s", "CPU s"]);
        for setting in ["200 B", "1 KB"] {
            for round in 0..3_u32 {
                let speed = 1000.0 * f64::from(round + 1);
                sheet.note(setting, "loop", vec![speed, f64::NAN]);
                sheet.note(setting, "relay", vec![speed * 1.5, 0.25]);
            }
        }
        sheet
    }

    #[test]
    fn a_ratio_is_of_two_contenders_in_one_setting_round_by_round() {
        let sheet = sheet();
        assert_eq!(sheet.settings(), ["200 B", "1 KB"]);
        let aim = sheet.ratio("1 KB", "events/s", "relay", "loop", "aim: 1.5").unwrap();
        assert_eq!(aim.what, "drain, 1 KB: events/s, relay / loop (aim: 1.5)");
        assert_eq!(aim.value, Spread { median: 1.5, min: 1.5, max: 1.5 });
        assert!(sheet.ratio("1 KB", "CPU s", "relay", "loop", "").is_none(), "what cannot be read has no ratio");
        assert!(sheet.ratio("2 KB", "events/s", "relay", "loop", "").is_none());
    }

    #[test]
    fn a_table_has_medians_and_the_ratio_beside_all_but_the_base() {
        let mut table = sheet().table();
        table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
        let rows: Vec<Vec<String>> = table
            .to_string()
            .lines()
            .map(|line| line.split('|').map(|cell| cell.trim().to_owned()).collect())
            .collect();
        assert_eq!(rows[2], ["", "200 B", "loop", "2000", "n/a", "", ""]);
        assert_eq!(rows[3], ["", "200 B", "relay", "3000", "0.25", "1.50 (1.50–1.50)", ""]);
    }
}
