//! What stands between `SET` and `WHERE`: looked at once, so that it can be nothing else.

use leastlock_core::Engine;

use super::names::Names;
use crate::error::Error;

/// The longest text, in bytes.
const MAX_BYTES: usize = 4096;

/// Assignments with placeholders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Assignments {
    text: &'static str,
    values: usize,
}

impl Assignments {
    /// Checks the text. It is the caller's own, so this finds mistakes and does not defend: a `WHERE` that would make the fence
    /// a part of an `OR`, a column of the fence that is assigned twice, a placeholder that is written in another engine's way.
    pub(super) fn parse(text: &'static str, engine: Engine, names: &Names) -> Result<Self, Error> {
        match fault(text, names) {
            None => Ok(Self { text, values: values(text, engine)? }),
            Some(fault) => Err(Error::Table { fault }),
        }
    }

    pub(super) const fn text(&self) -> &'static str {
        self.text
    }

    /// How many values there are to bind.
    pub(super) const fn values(&self) -> usize {
        self.values
    }
}

fn fault(text: &str, names: &Names) -> Option<&'static str> {
    if text.trim().is_empty() || text.len() > MAX_BYTES {
        return Some("the assignments must have 1 to 4096 bytes");
    }
    if text.contains(['\'', '"', '`', ';', '\\', '{', '}']) || text.contains("--") || text.contains("/*") {
        return Some("the assignments must have no quotes and no comments; bind values instead");
    }
    let mut depth = 0_i32;
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    for token in text.split_inclusive(|c: char| !is_part(c)) {
        let word = token.trim_end_matches(|c: char| !is_part(c));
        let fence = [Some(&names.generation), names.owner.as_ref(), names.brought.as_ref()];
        if fence.into_iter().flatten().any(|column| column.eq_ignore_ascii_case(word)) {
            return Some("the assignments must leave the fence's columns alone");
        }
        if depth == 0 && ["where", "returning", "from", "limit"].iter().any(|end| end.eq_ignore_ascii_case(word)) {
            return Some("the assignments must end before WHERE, which is the fence's");
        }
        depth += i32::from(token.ends_with('(')) - i32::from(token.ends_with(')'));
        if depth < 0 {
            return Some("the assignments must have their parentheses in pairs");
        }
    }
    (depth != 0).then_some("the assignments must have their parentheses in pairs")
}

/// Counts the placeholders.
fn values(text: &str, engine: Engine) -> Result<usize, Error> {
    if engine == Engine::MySql {
        if text.contains('$') {
            return Err(Error::Table { fault: "placeholders are written ? here" });
        }
        return Ok(text.matches('?').count());
    }
    let numbered = text.split('$').skip(1).map(|rest| {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse::<usize>().unwrap_or(0)
    });
    let mut numbered: Vec<_> = numbered.collect();
    numbered.sort_unstable();
    numbered.dedup();
    let are_consecutive = numbered.iter().enumerate().all(|(index, number)| *number == index + 1);
    if are_consecutive && !text.contains('?') {
        Ok(numbered.len())
    } else {
        Err(Error::Table { fault: "placeholders are written $1, $2, … here, without a gap" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &'static str, engine: Engine) -> Result<usize, Error> {
        let [table, key, generation, owner, brought] =
            ["account", "id", "fence", "fence_owner", "fence_brought"].map(str::to_owned);
        let (owner, brought) = (Some(owner), Some(brought));
        let names = Names { table, key, generation, owner, brought };
        Assignments::parse(text, engine, &names).map(|assignments| assignments.values())
    }

    #[test]
    fn assignments_are_taken_and_their_values_counted() {
        for (text, values) in [
            ("balance = balance + $1", 1),
            ("body = $2, title = $1, again = $2", 2),
            ("seen = true", 0),
            ("total = (SELECT sum(x) FROM item WHERE item.account = $1), fenced = 1", 1),
        ] {
            assert_eq!(parse(text, Engine::Postgres).unwrap(), values, "{text}");
        }
        assert_eq!(parse("a = ?, b = ?", Engine::MySql).unwrap(), 2);
    }

    #[test]
    fn everything_that_would_get_around_the_fence_is_refused() {
        for text in [
            "",
            "  ",
            "a = 1 WHERE true OR id = id",
            "a = 1 where id = 1",
            "fence = 9",
            "a = 1, FENCE = 9",
            "fence_owner = $1",
            "a = fence_brought",
            "a = 'x'",
            "a = 1 -- ",
            "a = 1 /* x",
            "a = 1; DROP TABLE x",
            "a = (1",
            "a = 1)",
            "a = $2",
            "a = $0",
            "a = $x",
            "a = ?",
        ] {
            assert!(parse(text, Engine::Postgres).is_err(), "{text}");
        }
        assert!(parse("a = $1", Engine::MySql).is_err());
    }
}
