//! Rows that no relay could read or send, written by plain SQL: the tables refuse them.

use leastlock_core::Engine;
use leastlock_outbox::{Event, OutboxSql};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::AssertSqlSafe;

use crate::leaving::{begin, leaving, tables};

const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const TAKEN: [&str; 6] = [
    "[]",
    " [ ]\n",
    r#"[["a","1"],["b",null],["c",{"hex":"FF00"}],["a",""]]"#,
    r#" [ [ "ü" , "\u0000\"\\\/\b\f\n\r\t" ] , [ "b" , { "hex" : "" } ] ] "#,
    r#"[["a\\u0000","ü"]]"#,
    r#"[["\ud83d\ude00","\ud83d\ude00"]]"#,
];
const REFUSED: [&str; 20] = [
    "",
    "{}",
    "null",
    "no json",
    "[1]",
    r#"["a","b"]"#,
    r#"[["a"]]"#,
    r#"[["a",1]]"#,
    r#"[["a","b","c"]]"#,
    r#"[[1,"a"]]"#,
    r#"[[null,"a"]]"#,
    r#"[["a",{"hex":"f"}]]"#,
    r#"[["a",{"hex":"zz"}]]"#,
    r#"[["a",{"hex":10}]]"#,
    r#"[["a",{"text":"b"}]]"#,
    r#"[["a\u0000","b"]]"#,
    r#"[["a","b"],]"#,
    r#"[["a","b"]"#,
    r"[['a','b']]",
    r#"{"a":"b"}"#,
];

/// What a statement by hand writes.
struct Row<'a> {
    event_id: &'a str,
    topic: &'a str,
    headers: &'a str,
    partition: &'a str,
}

const RIGHT: Row<'_> = Row { event_id: ID, topic: "t", headers: "[]", partition: "NULL" };

impl Row<'_> {
    /// Whether the table takes it.
    async fn is_taken<DB: TestEngine>(&self, database: &TestDatabase<DB>) -> bool {
        let Self { event_id, topic, headers, partition } = self;
        let literal = |text: &str| {
            let text = text.replace('\'', "''");
            // In MariaDB's literals a backslash escapes.
            if DB::ENGINE == Engine::MySql { text.replace('\\', r"\\") } else { text }
        };
        let values = format!("'{}', '{}', '{}', {partition}", literal(event_id), literal(topic), literal(headers));
        let insert = match DB::ENGINE {
            Engine::Sqlite => {
                format!("INSERT INTO leastlock_outbox (event_id, topic, headers, partition) VALUES ({values})")
            }
            Engine::Postgres => {
                format!(
                    "INSERT INTO leastlock_outbox (shard, event_id, topic, headers, partition) VALUES (0, {values})"
                )
            }
            _ => {
                format!(
                    "INSERT INTO leastlock_outbox (shard, event_id, topic, headers, `partition`) VALUES (0, {values})"
                )
            }
        };
        let mut tx = begin(database).await;
        let written = DB::fetch_all_query(&mut tx, sqlx::query(AssertSqlSafe(insert))).await;
        if written.is_ok() {
            tx.commit().await.expect("the commit");
        } else {
            tx.rollback().await.expect("the rollback");
        }
        written.is_ok()
    }
}

pub(crate) async fn row_that_no_relay_could_read_is_refused_where_it_is_written<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (database, outbox) = tables(database).await;
    let long = "t".repeat(250);
    for topic in ["", "stock moves", "orders\n", "ü", &long] {
        assert!(!Row { topic, ..RIGHT }.is_taken(&database).await, "{topic:?}");
    }
    for event_id in ["", "no uuid", "0189-0a5dac96774bbcceb302099a80570000", "01890a5dac96774bbcceb302099a805g"] {
        assert!(!Row { event_id, ..RIGHT }.is_taken(&database).await, "{event_id:?}");
    }
    for partition in ["-1", "2147483648", "'first'"] {
        assert!(!Row { partition, ..RIGHT }.is_taken(&database).await, "{partition}");
    }
    for headers in REFUSED {
        assert!(!Row { headers, ..RIGHT }.is_taken(&database).await, "{headers}");
    }
    // What is right is taken, and can be read by a relay: of plain SQL, and of the crate, however large.
    for headers in TAKEN {
        assert!(Row { headers, ..RIGHT }.is_taken(&database).await, "{headers}");
    }
    assert!(
        Row { event_id: "01890a5dac96774bbcceb302099a8057", topic: &long[1..], headers: "[]", partition: "0" }
            .is_taken(&database)
            .await
    );
    let large = Event::new("t", "k").header("text", "\"\n\\".repeat(100_000)).header("bytes", vec![0xff; 100_000]);
    let mut tx = begin(&database).await;
    outbox.append(&mut tx, large.header("\n\"", "\0")).await.expect("it is appended");
    tx.commit().await.expect("the commit");
    leaving(&database, TAKEN.len() + 2).await;

    // The double is the table without what refuses them: whatever its types let through is there.
    for drop in without_checks(DB::ENGINE) {
        database.execute(drop).await;
    }
    for headers in REFUSED {
        assert!(Row { headers, ..RIGHT }.is_taken(&database).await, "{headers}");
    }
    assert!(Row { topic: "", ..RIGHT }.is_taken(&database).await);
    assert!(Row { partition: "-1", ..RIGHT }.is_taken(&database).await);
}

fn without_checks(engine: Engine) -> &'static [&'static str] {
    match engine {
        Engine::Sqlite => &["DROP TRIGGER leastlock_outbox_readable", "DROP TRIGGER leastlock_outbox_readable_headers"],
        _ => &["ALTER TABLE leastlock_outbox DROP CONSTRAINT leastlock_outbox_topic, \
             DROP CONSTRAINT leastlock_outbox_partition, DROP CONSTRAINT leastlock_outbox_headers"],
    }
}
