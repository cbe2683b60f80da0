//! B10, B20: what statements read beside a million rows. SQLite counts no pages, so its plans are looked at: a search by the primary
//! key from the cursor on costs what it answers.

use leastlock_testkit::TestDatabase;
use sqlx::{AssertSqlSafe, Row, Sqlite};

use crate::support::tables;

const READ: &str = include_str!("../../sql/sqlite/read.sql");
const SWEEP: &str = include_str!("../../sql/sqlite/sweep.sql");
const LAG: &str = include_str!("../../sql/sqlite/lag.sql");
/// The double: a flag instead of a cursor, which every row is looked at for.
const BY_FLAG: &str = "SELECT id FROM leastlock_outbox WHERE headers <> 'published' ORDER BY created_at LIMIT 50";

pub(crate) async fn b10_b20_polls_read_as_much_beside_a_million_rows(database: TestDatabase<Sqlite>) {
    let (database, _outbox) = tables(database).await;
    database
        .execute(
            "INSERT INTO leastlock_outbox (event_id, topic) WITH RECURSIVE n (n) AS \
             (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000000) SELECT '01890a5d-ac96-774b-bcce-b302099a8057', 't' FROM n",
        )
        .await;
    database.execute("ANALYZE").await;
    for (statement, what) in [(READ, "a poll"), (SWEEP, "a sweep"), (LAG, "the lag")] {
        let looked_through = scans(&database, statement).await;
        assert_eq!(looked_through, Vec::<String>::new(), "{what}");
    }
    assert_ne!(
        scans(&database, BY_FLAG).await,
        Vec::<String>::new(),
        "the double must be seen to look through the log"
    );
}

/// The steps that look through the whole log, or sort it.
async fn scans(database: &TestDatabase<Sqlite>, statement: &str) -> Vec<String> {
    let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
    let steps = sqlx::raw_sql(explain).fetch_all(&database.pool).await.unwrap();
    let steps = steps.iter().map(|step| step.get::<String, _>("detail"));
    steps.filter(|step| step == "SCAN leastlock_outbox" || step.contains("TEMP B-TREE FOR ORDER BY")).collect()
}
