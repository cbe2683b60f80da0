//! Which cases ran on which engines, read from what `cargo test` printed.
//!
//! A case is there on an engine if at least one test function whose name starts with the case's number and `_` ran there
//! and came out ok, and none failed. A name may start with several: `b8_b19_…`. The engine is a part of the test's path; a
//! test without one is `pure`. A child's function must not carry a number: it comes out ok in every ordinary run, whatever
//! it would have shown.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter};
use std::str::FromStr;

use comfy_table::{ContentArrangement, Table as Sheet, presets};

pub use output::{Run, Verdict, runs};

mod output;

/// The engines, in the order of the matrix's columns. A test whose path names none of the others is `pure`.
pub const ENGINES: [&str; 9] = ["pure", "sqlite", "postgres", "mysql", "mock", "kafka", "redis", "etcd", "zookeeper"];

/// The cases of this repository.
pub const CASES: &str = include_str!("../cases.tsv");

/// A case and where it has to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// Its number, such as `O1`.
    pub number: String,
    /// The engines that must have it.
    pub engines: Vec<&'static str>,
    /// What it is about, in a few words.
    pub title: String,
}

/// All cases, in the order of the matrix's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    cases: Vec<Case>,
}

impl FromStr for Table {
    type Err = String;

    /// Reads lines of number, engines and title, separated by tabs; `#` begins a comment.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut cases: Vec<Case> = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let place = index + 1;
            let [number, engines, title] = line.split('\t').collect::<Vec<_>>()[..] else {
                return Err(format!("line {place}: a case has three columns: {line:?}"));
            };
            if output::numbers(&format!("{}_", number.to_lowercase())) != [number] {
                return Err(format!("line {place}: {number:?} is no case's number, such as O1"));
            }
            if cases.iter().any(|case| case.number == number) {
                return Err(format!("line {place}: {number} is there twice"));
            }
            let known = |name| ENGINES.into_iter().find(|engine| *engine == name).ok_or(name);
            let engines: Result<Vec<_>, _> = engines.split(',').map(known).collect();
            let engines = engines.map_err(|name| format!("line {place}: {name:?} is none of {ENGINES:?}"))?;
            cases.push(Case { number: number.to_owned(), engines, title: title.to_owned() });
        }
        Ok(Self { cases })
    }
}

/// Cases by engines, with what came out.
#[derive(Debug)]
pub struct Matrix {
    cases: Vec<Case>,
    /// For each case and engine, how many tests came out ok and how many failed.
    counts: BTreeMap<(String, &'static str), Count>,
}

/// How a case stands on an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// So many tests ran, all ok.
    Ok(usize),
    /// A test failed.
    Failed,
    /// It has to be there, and no test of it ran.
    Hole,
    /// It need not be there.
    NotApplicable,
}

#[derive(Debug, Default)]
struct Count {
    ok: usize,
    failed: usize,
}

impl Matrix {
    /// What `runs` show of the cases of `table`.
    #[must_use]
    pub fn new(table: Table, runs: &[Run]) -> Self {
        let mut counts: BTreeMap<(String, &'static str), Count> = BTreeMap::new();
        for run in runs {
            for number in run.numbers() {
                let count = counts.entry((number, run.engine())).or_default();
                match run.verdict {
                    Verdict::Ok => count.ok += 1,
                    Verdict::Failed => count.failed += 1,
                    Verdict::Ignored => {}
                }
            }
        }
        Self { cases: table.cases, counts }
    }

    /// How `case` stands on `engine`.
    #[must_use]
    pub fn cell(&self, case: &Case, engine: &'static str) -> Cell {
        match self.counts.get(&(case.number.clone(), engine)) {
            Some(Count { failed: 1.., .. }) => Cell::Failed,
            Some(Count { ok: ok @ 1.., .. }) => Cell::Ok(*ok),
            _ if case.engines.contains(&engine) => Cell::Hole,
            _ => Cell::NotApplicable,
        }
    }

    /// The holes and failures, one line each; none means that every case is there.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let cells = self.cases.iter().flat_map(|case| ENGINES.map(|engine| (case, engine, self.cell(case, engine))));
        let bad = cells.filter_map(|(case, engine, cell)| match cell {
            Cell::Failed => Some(format!("{} failed on {engine}: {}", case.number, case.title)),
            Cell::Hole => Some(format!("{} was not tested on {engine}: {}", case.number, case.title)),
            Cell::Ok(_) | Cell::NotApplicable => None,
        });
        bad.collect()
    }

    /// The numbers that tests carry and the table does not have: a slip of the pen, or a row that is due.
    #[must_use]
    pub fn strangers(&self) -> Vec<&str> {
        let is_known = |number: &str| self.cases.iter().any(|case| case.number == number);
        let mut strangers: Vec<_> = self.counts.keys().map(|(number, _)| number.as_str()).collect();
        strangers.retain(|number| !is_known(number));
        strangers.dedup();
        strangers
    }
}

impl Display for Matrix {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        let is_used =
            |engine: &&'static str| self.cases.iter().any(|case| self.cell(case, engine) != Cell::NotApplicable);
        let engines: Vec<&'static str> = ENGINES.into_iter().filter(is_used).collect();
        let mut sheet = Sheet::new();
        sheet.load_preset(presets::UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Disabled);
        sheet.set_header(["case"].into_iter().chain(engines.iter().copied()).chain(["situation"]));
        for case in &self.cases {
            let cells = engines.iter().map(|engine| self.cell(case, engine).to_string());
            sheet.add_row([case.number.clone()].into_iter().chain(cells).chain([case.title.clone()]));
        }
        write!(formatter, "{sheet}")
    }
}

impl Display for Cell {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ok(1) => formatter.write_str("ok"),
            Self::Ok(tests) => write!(formatter, "ok ×{tests}"),
            Self::Failed => formatter.write_str("FAILED"),
            Self::Hole => formatter.write_str("hole"),
            Self::NotApplicable => formatter.write_str("–"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# comment\nO1\tsqlite,postgres\tdelete\nP7\tpure\tcompletion\nI9\tpure\tno key\n";

    fn matrix(output: &str) -> Matrix {
        Matrix::new(TABLE.parse().expect("a table"), &runs(output))
    }

    const COMPLETE: &str =
        "test sqlite::o1_a ... ok\ntest postgres::o1_a ... ok\ntest p7_b ... ok\ntest x::i9_c ... ok\n";

    #[test]
    fn complete_run_has_no_complaints() {
        assert!(matrix(COMPLETE).complaints().is_empty());
    }

    #[test]
    fn missing_engine_is_a_hole() {
        let complaints = matrix(&COMPLETE.replace("postgres::", "sqlite::")).complaints();
        assert_eq!(complaints, ["O1 was not tested on postgres: delete"]);
    }

    #[test]
    fn ignored_test_is_a_hole() {
        let complaints = matrix(&COMPLETE.replace("i9_c ... ok", "i9_c ... ignored, later")).complaints();
        assert_eq!(complaints, ["I9 was not tested on pure: no key"]);
    }

    #[test]
    fn one_failure_outweighs_any_number_of_ok() {
        let complaints = matrix(&format!("{COMPLETE}test sqlite::o1_z ... FAILED\n")).complaints();
        assert_eq!(complaints, ["O1 failed on sqlite: delete"]);
    }

    #[test]
    fn failure_on_an_engine_that_need_not_have_it_is_a_complaint() {
        let complaints = matrix(&format!("{COMPLETE}test sqlite::p7_z ... FAILED\n")).complaints();
        assert_eq!(complaints, ["P7 failed on sqlite: completion"]);
    }

    #[test]
    fn nothing_printed_is_nothing_tested() {
        assert_eq!(matrix("").complaints().len(), 4);
    }

    #[test]
    fn number_without_a_row_is_named_once() {
        let output = "test o99_a ... ok\ntest sqlite::o99_a ... ok\ntest o1_a ... ok\n";
        assert_eq!(matrix(output).strangers(), ["O99"]);
    }

    #[test]
    fn matrix_is_printed_with_the_used_columns_only() {
        let printed = matrix("test sqlite::o1_a ... ok\ntest sqlite::o1_b ... ok\ntest p7_b ... FAILED\n").to_string();
        for word in ["ok ×2", "hole", "FAILED", "–", "pure", "sqlite", "postgres", "completion"] {
            assert!(printed.contains(word), "{word} in\n{printed}");
        }
        assert!(!printed.contains("mysql"), "{printed}");
    }

    #[test]
    fn table_of_this_repository_is_sound() {
        let table: Table = CASES.parse().expect("cases.tsv");
        assert!(table.cases.len() > 30);
    }

    #[test]
    fn broken_tables_are_refused() {
        for (table, because) in [
            ("O1\tsqlite", "three columns"),
            ("O1\toracle\ttitle", "\"oracle\" is none of"),
            ("O1\tpure\ta\nO1\tpure\tb", "line 2: O1 is there twice"),
            ("first\tpure\ta", "no case's number"),
        ] {
            let error = table.parse::<Table>().expect_err(table);
            assert!(error.contains(because), "{error}");
        }
    }
}
