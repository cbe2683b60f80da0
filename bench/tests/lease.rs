//! `lease` once on every backend that is there, as briefly as it goes: what is measured means nothing, what is verified does.

use std::process::Command;

#[test]
fn every_contender_keeps_the_others_out_on_every_backend() {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_leastlock-bench"));
    bench.args(["lease", "--rounds", "1", "--seconds", "0.1", "--clients", "1,4", "--markdown", "--out"]);
    let output = bench.arg(folder.path()).output().unwrap();
    let told = format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}");
    let one_blank = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    for backend in ["PostgreSQL", "SQLite", "MariaDB", "Redis"] {
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
