//! `lease` once on every backend that is there, as briefly as it goes: what is measured means nothing, what is verified does. Of the
//! faults there are as many as take seconds.

use std::process::{Command, Output};

#[test]
fn every_contender_keeps_the_others_out_on_every_backend() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_leastlock-bench"));
    bench.args(["lease", "--rounds", "1", "--seconds", "0.07", "--clients", "1,4", "--markdown", "--out"]);
    let output = bench.arg(folder.path()).output().unwrap();
    let told = format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}");
    let one_blank = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    for backend in ["PostgreSQL", "SQLite", "MariaDB", "Redis", "etcd", "ZooKeeper"] {
        for line in [
            format!("| {backend}, 1 client | two commands |"),
            format!("| {backend}, 4 clients | leastlock, efficiency |"),
            format!("| {backend}, 4 clients | two commands, polled every ms |"),
            format!("| {backend}, 4 clients | leastlock, fenced, processes apart |"),
        ] {
            assert!(told.lines().any(|found| one_blank(found).starts_with(&line)), "{line}\n{told}");
        }
    }
    for name in ["lease.svg", "lease.csv", "lease.json"] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
}

fn meets_faults(arguments: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_leastlock-bench"));
    bench.args(["lease", "--pairs", "4", "--ttl", "2", "--seed", "7", "--markdown", "--out"]).arg(folder.path());
    bench.args(arguments.split(' ')).output().unwrap()
}

/// No lower token is applied after a higher one, and the double without the check is caught: otherwise it ends with exit code 1.
fn assert_fenced(output: &Output, setting: &str) {
    let told = format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}");
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    for conduct in ["fenced", "fenced, its clock stands still", "the double without the check"] {
        let line = told.lines().map(cells).find(|line| line.len() > 6 && line[1] == setting && line[2] == conduct);
        let line = line.unwrap_or_else(|| panic!("{setting}, {conduct}\n{told}"));
        assert_eq!(line[3], "4", "take-overs\n{told}");
        assert_eq!(line[6] == "0", conduct.starts_with("fenced"), "late writes\n{told}");
    }
}

#[test]
fn a_holder_that_was_stopped_writes_nothing_after_the_next_one_has() {
    assert_fenced(&meets_faults("--part pauses --backend redis --faults 4"), "Redis, 4 pairs, TTL 2s");
}

#[test]
fn a_holder_that_was_cut_off_writes_nothing_after_the_next_one_has() {
    assert_fenced(&meets_faults("--part cuts --backend etcd --faults 4"), "etcd, 4 pairs, TTL 2s");
}
