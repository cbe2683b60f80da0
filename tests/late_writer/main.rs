//! The example `late_writer` from outside: what it prints, and that each mistake which it can make shows.

mod program;

use std::time::Duration;

use leastlock_testkit::TestDatabase;
use leastlock_testkit::database::Postgres;

use crate::program::{LateWriter, Output};

const PATIENCE: Duration = Duration::from_mins(2);
const LINES: &str =
    "owner comparison: B lease survives\nunprotected resource: late A result\nfenced resource: B result\n";

fn comes_out_right(output: &Output) {
    assert_eq!(output.code, Some(0), "{output}");
    assert_eq!(output.stdout, LINES, "exactly three lines: {output}");
    assert!(output.stderr.contains("A: the fenced resource refuses"), "{output}");
    assert!(output.stderr.contains("the lease is not A's"), "{output}");
}

#[test]
fn with_no_arguments_the_late_holder_ends_nothing_and_writes_to_the_unprotected_resource_only() {
    comes_out_right(&LateWriter::new().run(PATIENCE));
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_it_comes_out_the_same_in_each_round() {
    let database = TestDatabase::<Postgres>::create().await;
    let run = LateWriter::new().argument("--database", &database.url).argument("--ttl", "200");
    comes_out_right(&run.argument("--rounds", "5").run(PATIENCE));
    assert_eq!(database.int("SELECT fencing_seq FROM leastlock_lease").await, 10, "two holders a round");
}

#[cfg(feature = "mysql")]
#[tokio::test(flavor = "multi_thread")]
async fn on_mariadb_it_comes_out_the_same() {
    let database = TestDatabase::<leastlock_testkit::database::MySql>::create().await;
    let run = LateWriter::new().argument("--database", &database.url).argument("--ttl", "200");
    comes_out_right(&run.run(PATIENCE));
}

#[test]
fn each_mistake_shows_in_its_own_line_and_is_a_breach() {
    for (mistake, right, wrong) in [
        ("--without-owner", "B lease survives", "B lease is gone"),
        ("--without-fence", "fenced resource: B result", "fenced resource: late A result"),
    ] {
        let output = LateWriter::new().flag(mistake).argument("--ttl", "200").run(PATIENCE);
        assert_eq!(output.code, Some(1), "{output}");
        assert_eq!(output.stdout, LINES.replace(right, wrong), "{output}");
        assert!(output.stderr.contains("breach"), "{output}");
    }
}

#[test]
fn bad_arguments_end_with_2_and_one_line() {
    for url in ["oracle://somewhere/else", "sqlite:///no/such/folder/file"] {
        let output = LateWriter::new().argument("--database", url).run(PATIENCE);
        assert_eq!((output.code, output.stderr.lines().count()), (Some(2), 1), "{output}");
        assert_eq!(output.stdout, "");
    }
    assert_eq!(LateWriter::new().argument("--ttl", "1").run(PATIENCE).code, Some(2));
}
