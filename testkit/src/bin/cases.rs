//! Prints the matrix of cases and engines from the output of `cargo test`: `cases FILE`, or `cases -` for stdin.
//!
//! Exits with 1 if a case failed or has a hole, and with 2 if there was nothing to read.

use std::io::{Read, Write};
use std::process::ExitCode;

use leastlock_testkit::cases::{CASES, Matrix, runs};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [file] = &arguments[..] else {
        eprintln!("usage: cases FILE, with the output of cargo test in it, or - for stdin");
        return ExitCode::from(2);
    };
    let mut bytes = Vec::new();
    let read = if file == "-" {
        std::io::stdin().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    if let Err(error) = read {
        eprintln!("{}: {error}", file.display());
        return ExitCode::from(2);
    }
    let matrix =
        Matrix::new(CASES.parse().expect("cases.tsv is checked by a test"), &runs(&String::from_utf8_lossy(&bytes)));
    let complaints = matrix.complaints();
    let strangers = matrix.strangers();
    let mut lines = vec![matrix.to_string()];
    if !strangers.is_empty() {
        lines.push(format!("tests carry numbers that cases.tsv does not have: {}", strangers.join(", ")));
    }
    lines.extend(complaints.iter().cloned());
    // Whoever closes the pipe early, such as `head`, has seen enough; the exit code still tells.
    let _ = writeln!(std::io::stdout(), "{}", lines.join("\n"));
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
