//! What the guide shows: its SQL is what `tests/producer/plain_sql.rs` runs, and its program is the first part of a file in
//! `docs/readme`, whose second part runs it.

#[cfg(feature = "sqlite")]
#[path = "../../docs/readme/outbox_with_relay.rs"]
mod outbox_with_relay;

const GUIDE: &str = include_str!("../../docs/src/outbox.md");
const PROGRAM: &str = include_str!("../../docs/readme/outbox_with_relay.rs");

/// In the guide's order.
const PLAIN: [&str; 5] = [
    include_str!("producer/plain/postgres_function.sql"),
    include_str!("producer/plain/postgres_insert.sql"),
    include_str!("producer/plain/mysql_procedure.sql"),
    include_str!("producer/plain/mysql_insert.sql"),
    include_str!("producer/plain/sqlite_insert.sql"),
];

/// The line between what is shown and what runs it.
const SEAM: &str = "\n// Runs what the guide shows.\n";

/// The text of each block that begins with `fence`.
fn blocks<'m>(markdown: &'m str, fence: &str) -> Vec<&'m str> {
    markdown.split(fence).skip(1).map(|rest| rest.split("```").next().unwrap_or(rest)).collect()
}

/// The statements of the guide that append an event.
fn appends(guide: &str) -> Vec<&str> {
    let appends = |sql: &&str| sql.contains("INTO leastlock_outbox ") || sql.contains("leastlock_outbox_append");
    blocks(guide, "```sql\n").into_iter().filter(appends).collect()
}

#[test]
fn guide_shows_the_sql_that_is_run() {
    assert_eq!(appends(GUIDE), PLAIN);
    // On a page that is read as it is, an include shows nothing.
    assert!(!GUIDE.contains("{{#include"));
    // One that was edited by itself.
    assert_ne!(appends(&GUIDE.replacen("gen_random_uuid() AS event_id", "'1' AS event_id", 1)), PLAIN);
}

#[test]
fn guide_shows_the_program_that_is_run() {
    let (shown, _) = PROGRAM.split_once(SEAM).expect("a line that says what runs it");
    let is_shown = |guide: &str| blocks(guide, "```rust,ignore\n").contains(&shown);
    assert!(is_shown(GUIDE));
    // One that was edited by itself.
    assert!(!is_shown(&GUIDE.replacen("stop.cancel()", "stop.cancelled()", 1)));
}
