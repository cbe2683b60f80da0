//! Every part of `worker` once, as briefly as it goes: what is measured means nothing, what is verified does. The soak is the
//! exception: it is as long as three workers need to be killed, stopped beyond their session, and rebalanced.

use std::process::{Command, Output};

fn bench(arguments: &str) -> (Output, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_leastlock-bench"));
    bench.args(["worker", "--rounds", "1", "--markdown", "--out"]).arg(folder.path());
    (bench.args(arguments.split_whitespace()).output().unwrap(), folder)
}

fn told(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn assert_lines(output: &Output, lines: &[&str]) {
    let told = told(output);
    assert!(output.status.success(), "{told}");
    let one_blank = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in lines {
        assert!(told.lines().any(|found| one_blank(found).starts_with(line)), "{line}\n{told}");
    }
}

#[test]
fn handlers_that_sleep_and_polling_alone_run_on_the_mock_cluster() {
    let (output, folder) = bench(
        "--part sleep,poll --sleep-ms 0,1 --keys 1,20 --partitions 1,2 --concurrency 4 --records 2000 --seconds 0.5 --seed 7",
    );
    let lines = [
        "| 0 ms, keys: 20, 2 partitions, concurrency 4 | worker",
        "| 1 ms, keys: 1, 1 partition, concurrency 4 | hand-written loop",
        "| 0 ms, keys: 1000, 1 partition, concurrency 100 | bare poll loop",
        "| poll, 0 ms, keys: 1000, 2 partitions, concurrency 100: records/s, worker / bare poll loop (aim: 0.5 or more)",
    ];
    assert_lines(&output, &lines);
    for name in ["worker.svg", "worker.csv", "worker.json"] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
}

#[test]
fn rows_are_updated_by_every_contender_on_the_real_broker() {
    let (output, _folder) = bench("--part row --records 500 --seconds 2 --seed 7");
    let row = "| a row of 1000, 1 partition, 16 connections |";
    let ways =
        ["hand-written loop", "worker", "the same, BEGIN and COMMIT", "worker, record mode", "worker, batch mode"];
    assert_lines(&output, &ways.map(|way| format!("{row} {way} |")).each_ref().map(String::as_str));
}

#[test]
fn keys_stand_still_in_the_worker_and_in_the_loop() {
    let (output, _folder) = bench("--part blocked --blocked 2 --seed 7");
    assert_lines(
        &output,
        &["| 1 of 1000 for 2s, 5ms, concurrency 100 | worker", "| 10 of 1000 for 2s, 5ms, concurrency 100"],
    );
}

#[test]
fn soak_of_three_workers_loses_doubles_inverts_and_applies_behind_a_fence_nothing() {
    let (output, _folder) = bench("--part soak --minutes 0.3 --rate 100");
    // The command that repeats it, with the seed, is the first line.
    let modes = ["| 100 records/s, 3 workers | worker, record mode", "| 100 records/s, 3 workers | worker, batch mode"];
    assert_lines(&output, &modes);
}

#[test]
fn double_soak_of_workers_without_a_fence_finds_doubles() {
    let (output, _folder) = bench("--part soak --minutes 0.3 --rate 100 --contender worker --seed 3");
    assert!(!output.status.success(), "{}", told(&output));
    let told = told(&output);
    let verdict = told.lines().find(|line| line.starts_with("error: of")).unwrap_or_else(|| panic!("{told}"));
    assert!(verdict.contains(" 0 lost") && !verdict.contains(" 0 doubled"), "{told}");
}
