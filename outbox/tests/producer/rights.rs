//! What a role without rights is told, and which rights an append needs.

use leastlock_core::Statement;
use leastlock_outbox::{Error, Event, Outbox};
use leastlock_testkit::TestDatabase;
use sqlx::{AssertSqlSafe, Postgres, Transaction};

use crate::leaving::{begin, tables};

/// Appends as a role that has these rights; all of it is rolled back, the role included.
async fn append_with(database: &TestDatabase<Postgres>, outbox: &Outbox, grants: &[&str]) -> Result<(), Error> {
    let mut tx = begin(database).await;
    // Roles belong to the whole server.
    let role = format!("leastlock_test_{}", uuid::Uuid::new_v4().simple());
    let run = async |tx: &mut Transaction<'static, Postgres>, sql: String| {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut **tx).await.expect("it runs");
    };
    run(&mut tx, format!("CREATE ROLE {role}")).await;
    for grant in grants {
        run(&mut tx, format!("GRANT {grant} TO {role}")).await;
    }
    run(&mut tx, format!("SET LOCAL ROLE {role}")).await;
    let appended = outbox.append(&mut tx, Event::new("t", "k").bytes("v")).await;
    tx.rollback().await.expect("the rollback");
    appended.map(drop)
}

pub(crate) async fn denied_append_names_the_table_and_the_rights(database: TestDatabase<Postgres>) {
    let (database, outbox) = tables(database).await;
    let denied = append_with(&database, &outbox, &[]).await.unwrap_err();
    let says = denied.to_string();
    assert!(matches!(denied, Error::Denied { .. }) && !denied.is_retryable(), "{denied:?}");
    assert!(says.contains("table leastlock_outbox") && says.contains("INSERT on leastlock_outbox"), "{says}");
    // What it names suffices.
    let named = ["INSERT ON leastlock_outbox", "SELECT ON leastlock_outbox_shard"];
    append_with(&database, &outbox, &named).await.expect("these are the rights that it takes");
    // Another refusal of the database is none of rights.
    let mut tx = begin(&database).await;
    let drop_tables = Statement::new("ALTER TABLE leastlock_outbox RENAME TO elsewhere");
    drop_tables.execute::<Postgres>(&mut tx).await.expect("it is renamed");
    let missing = outbox.append(&mut tx, Event::new("t", "k").bytes("v")).await.unwrap_err();
    assert!(matches!(missing, Error::Database { .. }), "{missing:?}");
}
