//! Which statements a rule is about, by their text.

/// Holds for the statements that commit a transaction: `COMMIT` and `END`, alone or at the end of several.
pub fn is_commit() -> impl FnMut(&str) -> bool + Send + 'static {
    |sql| {
        let without_comments = sql.lines().map(|line| line.split("--").next().unwrap_or_default());
        let text = without_comments.collect::<Vec<_>>().join(" ").to_ascii_uppercase();
        text.split(';').any(|statement| {
            matches!(
                statement.split_whitespace().collect::<Vec<_>>()[..],
                ["COMMIT" | "END"] | ["COMMIT" | "END", "WORK" | "TRANSACTION"]
            )
        })
    }
}

/// Holds for the first statement for which `predicate` holds, and for none after it.
pub fn once(mut predicate: impl FnMut(&str) -> bool + Send + 'static) -> impl FnMut(&str) -> bool + Send + 'static {
    let mut is_over = false;
    move |sql| {
        let holds = !is_over && predicate(sql);
        is_over |= holds;
        holds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_told_from_other_statements() {
        for sql in ["COMMIT", "commit;", "  End ", "COMMIT WORK", "INSERT INTO t VALUES (1); commit", "-- why\nCOMMIT"]
        {
            assert!(is_commit()(sql), "{sql}");
        }
        for sql in ["", "ROLLBACK", "BEGIN", "COMMIT PREPARED 'x'", "SELECT 'COMMIT'", "INSERT INTO commit VALUES (1)"]
        {
            assert!(!is_commit()(sql), "{sql}");
        }
    }

    #[test]
    fn once_holds_a_single_time() {
        let first = once(is_commit());
        assert_eq!(["BEGIN", "COMMIT", "COMMIT"].map(first), [false, true, false]);
    }
}
