//! The README's Rust blocks: each is the first part of a file in `docs/readme`, whose second part runs it.

#[path = "../docs/readme/announce.rs"]
mod announce;
#[path = "../docs/readme/ledger.rs"]
mod ledger;
#[path = "../docs/readme/place.rs"]
mod place;
#[path = "../docs/readme/report.rs"]
mod report;
#[path = "../docs/readme/take.rs"]
mod take;
#[path = "../docs/readme/take_stock.rs"]
mod take_stock;
#[path = "../docs/readme/withdraw.rs"]
mod withdraw;

const README: &str = include_str!("../README.md");

/// In the README's order.
const FILES: [&str; 7] = [
    include_str!("../docs/readme/take_stock.rs"),
    include_str!("../docs/readme/take.rs"),
    include_str!("../docs/readme/place.rs"),
    include_str!("../docs/readme/withdraw.rs"),
    include_str!("../docs/readme/ledger.rs"),
    include_str!("../docs/readme/announce.rs"),
    include_str!("../docs/readme/report.rs"),
];

/// The line between what is shown and what runs it.
const SEAM: &str = "\n// Runs what the README shows.\n";

/// The text of each Rust block.
fn blocks(markdown: &str) -> Vec<&str> {
    markdown.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap_or(rest)).collect()
}

fn shown(file: &str) -> &str {
    file.split_once(SEAM).expect("a line that says what runs it").0
}

#[test]
fn readme_shows_what_is_run() {
    for (block, file) in blocks(README).into_iter().zip(FILES) {
        assert_eq!(block, shown(file));
    }
    assert_eq!(blocks(README).len(), FILES.len());
}

#[test]
fn block_that_was_edited_by_itself_is_found() {
    let readme = README.replacen("units >= $1", "units > $1", 1);
    assert_ne!(blocks(&readme), FILES.map(shown));
}
