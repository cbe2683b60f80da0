//! The lines of libtest.

use super::ENGINES;

/// One test that ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its path, such as `sqlite::o1_stale_delete`.
    pub path: String,
    /// How it came out.
    pub verdict: Verdict,
}

/// How a test came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It passed.
    Ok,
    /// It did not.
    Failed,
    /// It did not run.
    Ignored,
}

impl Run {
    /// The numbers that the function's name starts with, as the table writes them.
    #[must_use]
    pub fn numbers(&self) -> Vec<String> {
        numbers(self.path.rsplit("::").next().unwrap_or_default())
    }

    /// The first engine that the path names.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        let named = self.path.split("::").find_map(|part| ENGINES.into_iter().find(|engine| *engine == part));
        named.unwrap_or("pure")
    }
}

/// The cases' numbers at the start of a function's name: each a letter and digits, and no more before its `_`.
pub(super) fn numbers(name: &str) -> Vec<String> {
    let words = name.split_inclusive('_').map_while(|word| word.strip_suffix('_'));
    words.take_while(|word| is_number(word)).map(str::to_uppercase).collect()
}

fn is_number(word: &str) -> bool {
    let digits = word.strip_prefix(|letter: char| letter.is_ascii_lowercase()).unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The tests that a runner's output tells of. Other output may stand around its lines, in front of them, or (with one
/// thread or `--nocapture`) between a test's name and its verdict.
#[must_use]
pub fn runs(output: &str) -> Vec<Run> {
    const NAMED: &str = "test ";
    const SEPARATOR: &str = " ... ";
    let mut runs = Vec::new();
    let mut awaited: Option<String> = None;
    for line in without_colours(output).lines() {
        let mut rest = line;
        let mut is_named = false;
        while let Some((_, after)) = rest.split_once(NAMED) {
            rest = after;
            let Some((name, answer)) = after.split_once(SEPARATOR) else { break };
            let path = name.split(" - ").next().unwrap_or_default();
            if path.contains(char::is_whitespace) {
                // Not a name but words with "test " among them; the test's own may come further on.
                continue;
            }
            is_named = true;
            let path = path.to_owned();
            awaited = match verdict(answer) {
                Some(verdict) => {
                    runs.push(Run { path, verdict });
                    None
                }
                None => Some(path),
            };
            rest = answer;
        }
        if !is_named && matches!(line, "ok" | "FAILED") {
            let verdict = if line == "ok" { Verdict::Ok } else { Verdict::Failed };
            runs.extend(awaited.take().map(|path| Run { path, verdict }));
        }
    }
    runs
}

fn verdict(answer: &str) -> Option<Verdict> {
    let word = answer.split(|letter: char| !letter.is_ascii_alphabetic()).next()?;
    match word {
        "ok" => Some(Verdict::Ok),
        "FAILED" => Some(Verdict::Failed),
        "ignored" => Some(Verdict::Ignored),
        _ => None,
    }
}

/// `output` without terminal escapes, which a runner that was told to colour puts around its verdicts.
fn without_colours(output: &str) -> String {
    let mut plain = String::with_capacity(output.len());
    let mut letters = output.chars();
    while let Some(letter) = letters.next() {
        if letter != '\u{1b}' {
            plain.push(letter);
            continue;
        }
        match letters.next() {
            Some('[') => drop(letters.by_ref().find(|end| ('@'..='~').contains(end))),
            Some('(') => drop(letters.next()),
            _ => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(output: &str) -> Vec<(String, Verdict)> {
        runs(output).into_iter().map(|run| (run.path, run.verdict)).collect()
    }

    #[test]
    fn plain_lines_are_read() {
        let output = "
   Compiling leastlock-occ v0.1.0
     Running tests/conformance.rs (target/debug/deps/conformance-1)

running 3 tests
test sqlite::o1_stale_delete ... ok
test suite::x::p7_late ... FAILED
test postgres::o4_null ... ignored, needs a server
test pure::panics - should panic ... ok

failures:
    suite::x::p7_late

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s
";
        assert_eq!(
            read(output),
            [
                ("sqlite::o1_stale_delete".to_owned(), Verdict::Ok),
                ("suite::x::p7_late".to_owned(), Verdict::Failed),
                ("postgres::o4_null".to_owned(), Verdict::Ignored),
                ("pure::panics".to_owned(), Verdict::Ok),
            ]
        );
    }

    #[test]
    fn verdict_may_come_after_other_output() {
        let output = "test sqlite::o1_a ... connecting\nhalf way ok\nok\ntest o2_b ... FAILED\nok\n";
        assert_eq!(read(output), [("sqlite::o1_a".to_owned(), Verdict::Ok), ("o2_b".to_owned(), Verdict::Failed)]);
    }

    #[test]
    fn other_output_may_stand_in_front_on_the_same_line() {
        let output = "a test that complains: test sqlite::o1_a ... ok\nno newline...test o2_b ... oktest o3_c ... ok\n";
        let names: Vec<_> = runs(output).into_iter().map(|run| run.path).collect();
        assert_eq!(names, ["sqlite::o1_a", "o3_c"]);
    }

    #[test]
    fn verdict_that_never_came_is_none() {
        assert!(
            read("test sqlite::o1_a ... killed\ntest sqlite::o1_a has been running for over 60 seconds\n").is_empty()
        );
    }

    #[test]
    fn colours_are_ignored() {
        let output = "test o1_a ... \u{1b}[32mok\u{1b}(B\u{1b}[m\ntest o2_b ... \u{1b}[31mFAILED\u{1b}[0m\n";
        assert_eq!(read(output), [("o1_a".to_owned(), Verdict::Ok), ("o2_b".to_owned(), Verdict::Failed)]);
    }

    #[test]
    fn documentation_tests_are_no_cases() {
        let output = "test src/lib.rs - o1_example (line 8) ... ok\ntest src/x.rs - x (line 2) - compile ... ok\n";
        assert!(runs(output).iter().all(|run| run.numbers().is_empty()), "{:?}", runs(output));
    }

    #[test]
    fn numbers_are_a_letter_and_digits_each_before_anything_else() {
        assert_eq!(numbers("o15_two_hundred"), ["O15"]);
        assert_eq!(numbers("b8_b19_outage_of_b4_relays"), ["B8", "B19"]);
        for name in ["o15", "sha256_is", "o_15", "15_o", "o1b_x", "_o1", "late_o1_x"] {
            assert!(numbers(name).is_empty(), "{name}");
        }
    }

    #[test]
    fn engine_is_any_part_of_the_path() {
        for (path, engine) in [
            ("sqlite::o1_a", "sqlite"),
            ("suite::postgres::deep::o1_a", "postgres"),
            ("suite::o1_sqlite", "pure"),
            ("o1_a", "pure"),
            ("postgres::kafka::p4_a", "postgres"),
        ] {
            let run = Run { path: path.to_owned(), verdict: Verdict::Ok };
            assert_eq!(run.engine(), engine, "{path}");
        }
    }
}
