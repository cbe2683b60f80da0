//! The handler that the guide and the README show is the first part of a file in `docs/readme`, whose second part runs it.
#![cfg(all(feature = "tower", feature = "sqlite"))]

#[path = "../../docs/readme/place_over_http.rs"]
mod place_over_http;

const FILE: &str = include_str!("../../docs/readme/place_over_http.rs");

/// The line between what is shown and what runs it.
const SEAM: &str = "\n// Runs what the guide and the crate's README show.\n";

/// Whether `page` shows what is run, whole.
fn shows(page: &str) -> bool {
    let (shown, _) = FILE.split_once(SEAM).expect("a line that says what runs it");
    page.split("```rust,ignore\n").skip(1).any(|rest| rest.split("```").next() == Some(shown))
}

#[test]
fn guide_and_readme_show_what_is_run() {
    let guide = include_str!("../../docs/src/idempotency-key.md");
    let readme = include_str!("../README.md");
    assert!(shows(guide) && shows(readme));
    // One that was edited by itself.
    assert!(!shows(&guide.replace("unit.complete(answer)", "unit.complete(made)")));
}
