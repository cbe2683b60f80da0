use super::*;
use crate::statistics::Quotient;

/// An entry of three rounds.
pub(crate) fn entry(name: &'static str, per_second: [f64; 3]) -> Entry {
    let round = |per_second| Round {
        operations: 10,
        seconds: 1.0,
        per_second,
        p50_us: 1500.0,
        p99_us: 9000.0,
        conflicts: 25,
        gave_up: 2,
        cpu_seconds: Some(0.004),
        oversold: 0,
    };
    let rounds = per_second.map(round).into();
    Entry { name, quotient: None, retries: false, is_wrong_on_purpose: false, oversold_warming_up: 0, rounds }
}

/// Two measures at two numbers of clients.
pub(crate) fn report() -> Report {
    let mut by_hand = entry("by hand", [100.0, 100.0, 100.0]);
    by_hand.quotient = Some(Quotient { of: "leastlock", by: "by hand" });
    let entries = vec![entry("leastlock", [90.0, 95.0, 99.0]), by_hand];
    let comparison =
        |(measure, clients)| Comparison { measure, clients, connections: clients.min(8), entries: entries.clone() };
    Report {
        scenario: "example",
        command: "cargo run".to_owned(),
        engine: "SQLite 3".to_owned(),
        date: "2026-11-29".to_owned(),
        cores: 2,
        load_before: Some("0.10".to_owned()),
        quotable: false,
        ratio: "leastlock / this",
        cpu: None,
        comparisons: [("one", 1), ("one", 16), ("two", 1), ("two", 16)].map(comparison).into(),
        sheets: Vec::new(),
        aims: Vec::new(),
        notes: Vec::new(),
    }
}

fn cells(markdown: &str, row: &str, name: &str) -> Vec<String> {
    let mut rows = markdown.lines().filter(|line| line.starts_with(row) && line.contains(name));
    rows.next().unwrap().split('|').map(|cell| cell.trim().to_owned()).collect()
}

#[test]
fn table_has_the_ratio_beside_the_base_only() {
    let markdown = report().markdown();
    assert_eq!(
        cells(&markdown, "| two       |      16", "leastlock"),
        ["", "two", "16", "leastlock", "95", "1.50", "9.00", "", ""]
    );
    assert_eq!(
        cells(&markdown, "| two       |      16", "by hand"),
        ["", "two", "16", "by hand", "100", "1.50", "9.00", "0.95 (0.90–0.99)", ""]
    );
}

#[test]
fn a_contender_without_its_base_has_no_ratio() {
    let mut report = report();
    report.comparisons[0].entries.remove(0);
    let comparison = &report.comparisons[0];
    assert_eq!(comparison.ratio(&comparison.entries[0]), None);
}

#[test]
fn costs_are_of_one_operation_and_of_a_thousand() {
    let mut report = report();
    report.cpu = Some("of the server's processes");
    report.comparisons[0].entries[0].retries = true;
    let markdown = report.markdown();
    assert_eq!(cells(&markdown, "| one       |       1", "leastlock")[8..], ["2.50", "6", "0.4000", "0", ""]);
    assert_eq!(cells(&markdown, "| one       |       1", "by hand")[8..], ["", "", "0.4000", "0", ""]);
    report.comparisons[0].entries[1].rounds.iter_mut().for_each(|round| round.cpu_seconds = None);
    assert_eq!(cells(&report.markdown(), "| one       |       1", "by hand")[10], "n/a");
}

#[test]
fn whoever_oversells_is_named_unless_it_is_there_to_show_it() {
    let mut report = report();
    assert_eq!(report.wrong(), Vec::<String>::new());
    report.comparisons[3].entries[1].oversold_warming_up = 4;
    report.comparisons[3].entries[1].rounds[1].oversold = 3;
    assert_eq!(report.wrong(), ["by hand, clients: 16, two: oversold 7"]);
    report.comparisons[3].entries[1].is_wrong_on_purpose = true;
    assert_eq!(report.wrong(), Vec::<String>::new());
}

#[test]
fn the_summary_stands_below_with_enough_digits() {
    let mut report = report();
    let value = Spread { median: 0.0123, min: 0.01, max: 0.02 };
    report.aims.push(Aim { what: "p99".to_owned(), value });
    let value = Spread { median: 0.04, min: -598.0, max: 702.6 };
    report.aims.push(Aim { what: "µs".to_owned(), value });
    assert_eq!(cells(&report.markdown(), "| p99", "p99"), ["", "p99", "0.0123 (0.0100–0.0200)", ""]);
    assert_eq!(cells(&report.markdown(), "| µs", "µs"), ["", "µs", "0 (-598–703)", ""]);
}

#[test]
fn too_few_rounds_and_too_few_connections_are_said_to_be_too_few() {
    let text = report().to_string();
    assert!(text.contains("2 cores, load average 0.10 before the run. Fewer than 5 rounds"), "{text}");
    assert!(text.contains("16 clients queued for 8 connections."), "{text}");
}
