//! Prints the matrix of cases and engines from the output of `cargo test`: `cases FILE`, or `cases -` for stdin.
//!
//! Exits with 1 if a case failed or has a hole, and with 2 if there was nothing to read.

use std::io::Read;
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
    println!("{matrix}");
    let strangers = matrix.strangers();
    if !strangers.is_empty() {
        println!("tests carry numbers that cases.tsv does not have: {}", strangers.join(", "));
    }
    let complaints = matrix.complaints();
    for complaint in &complaints {
        println!("{complaint}");
    }
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
