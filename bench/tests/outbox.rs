//! Every part of `outbox` once, as briefly as it goes: what is measured means nothing, what is verified does.

use std::process::Command;

fn runs(engine: &[&str], lines: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_leastlock-bench"));
    bench
        .args(["outbox", "--rounds", "1", "--seconds", "0.3", "--seed", "7", "--markdown", "--out"])
        .arg(folder.path());
    bench.args(["--part", "drain,latency,crash", "--events", "3000", "--bytes", "100", "--batch", "100"]);
    bench.args(["--rate", "50", "--no-search", "--lease", "1"]).args(engine);
    let done = bench.output().unwrap();
    let (out, complaints) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}{complaints}");
    let one_blank = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in lines {
        assert!(out.lines().any(|found| one_blank(found).starts_with(line)), "{line}\n{out}");
    }
    for name in ["outbox.svg", "outbox.csv", "outbox.json"] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
}

#[test]
fn every_part_runs_on_postgres() {
    let lines = [
        "| 3000 events of 100 B | relay",
        "| 50 tx/s, open transaction elsewhere | relay, woken",
        "| 3000 events of 200 B, killed at 40 %, lease 1s ",
    ];
    runs(&[], &lines);
}

#[test]
fn every_part_runs_on_mysql() {
    let url = std::env::var("LEASTLOCK_MYSQL_URL").unwrap();
    runs(&["--database", &url], &["| 3000 events of 100 B | relay", "| 50 tx/s, open transaction here | relay"]);
}

#[test]
fn every_part_runs_on_sqlite() {
    runs(
        &["--sqlite"],
        &[
            "| 3000 events of 100 B | produce alone",
            "| 50 tx/s, alone | relay, woken",
            "| 3000 events of 200 B, killed at 40 %, no lease | hand-written loop",
        ],
    );
}
