//! `cases` fails on a hole and on a failure, and passes when every case is there.

use std::io::Write;
use std::process::{Command, Stdio};

use leastlock_testkit::cases::CASES;

fn cases(output: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cases"));
    let mut child = command.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    child.stdin.take().expect("piped").write_all(output.as_bytes()).expect("it reads");
    let ended = child.wait_with_output().expect("it ends");
    (ended.status.code(), String::from_utf8(ended.stdout).expect("text"))
}

/// What a run in which every case of the table came out ok prints.
fn complete() -> String {
    let rows = CASES.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect::<Vec<_>>());
    let tests = rows.flat_map(|row| {
        let number = row[0].to_lowercase();
        row[1].split(',').map(|engine| format!("test {engine}::{number}_case ... ok\n")).collect::<Vec<_>>()
    });
    tests.collect()
}

#[test]
fn complete_run_passes() {
    let (code, printed) = cases(&complete());
    assert_eq!(code, Some(0), "{printed}");
    assert!(!printed.contains("hole"), "{printed}");
}

#[test]
fn every_single_missing_or_failed_line_is_found() {
    let complete = complete();
    for line in complete.lines().step_by(9) {
        let (code, printed) = cases(&complete.replace(&format!("{line}\n"), ""));
        assert_eq!(code, Some(1), "without {line}");
        assert!(printed.contains("hole") && printed.contains("was not tested on"), "{printed}");
        let (code, printed) = cases(&complete.replace(line, &line.replace("ok", "FAILED")));
        assert_eq!(code, Some(1), "with {line} failed");
        assert!(printed.contains("FAILED"), "{printed}");
    }
}

#[test]
fn without_a_file_it_is_a_mistake_of_the_caller() {
    let status = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cases"));
        command.args(arguments).stderr(Stdio::null()).status().expect("it runs").code()
    };
    assert_eq!(status(&[]), Some(2));
    assert_eq!(status(&["/nowhere/at/all"]), Some(2));
}
