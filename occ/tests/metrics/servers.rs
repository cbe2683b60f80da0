//! What only a server can do: break a deadlock, and lose a reply.

use leastlock_occ::metrics::{OCC_RETRY_RETRIES_TOTAL, OCC_RETRY_UNIT_SECONDS};
use leastlock_occ::{Attempt, Column, Retry, guarded};
use leastlock_testkit::{TestDatabase, TestEngine};
use tokio::sync::Barrier;

use super::seen::seen;
use super::units::{Account, PayError, QUICK, rows};

/// Two units of work that lock the rows in opposite orders.
fn deadlock_is_counted_as_such<DB: TestEngine>()
where
    i64: Column<DB>,
    Account: leastlock_occ::Stored<DB>,
{
    const ADD_A: &str = "UPDATE account SET balance = balance + 1 WHERE id = 'a'";
    const ADD_B: &str = "UPDATE account SET balance = balance + 1 WHERE id = 'b'";
    let seen = seen(async |_| {
        let database = TestDatabase::<DB>::create().await;
        rows(&database).await;
        let both_have_one = Barrier::new(2);
        let unit = async |first: &'static str, second: &'static str| {
            let work = async |mut attempt: Attempt<DB>| {
                let _applied = guarded(sqlx::query(first)).exactly(1).execute(attempt.tx()).await?;
                if attempt.number() == 1 {
                    both_have_one.wait().await;
                }
                let _applied = guarded(sqlx::query(second)).exactly(1).execute(attempt.tx()).await?;
                Ok::<_, PayError>(attempt.commit(()).await?)
            };
            Retry::default().backoff(QUICK).run(&database.pool, work).await.expect("a commit");
        };
        tokio::join!(unit(ADD_A, ADD_B), unit(ADD_B, ADD_A));
    });
    seen.check_labels().expect("words that are written down");
    assert_eq!(seen.by_label(OCC_RETRY_RETRIES_TOTAL), [("deadlock", 1)]);
    assert_eq!(seen.words(OCC_RETRY_UNIT_SECONDS), ["committed"; 2]);
}

#[cfg(feature = "mysql")]
#[test]
fn deadlock_is_counted_as_such_on_mysql() {
    deadlock_is_counted_as_such::<leastlock_testkit::database::MySql>();
}

#[cfg(feature = "postgres")]
mod on_postgres {
    use std::time::Duration;

    use leastlock_occ::combiner::CombineError;
    use leastlock_occ::metrics::{
        OCC_COMBINER_BATCH_SECONDS, OCC_COMBINER_COMMIT_SECONDS, OCC_COMBINER_RETRIES_TOTAL, OCC_COMBINER_UNKNOWN_TOTAL,
    };
    use leastlock_testkit::database::Postgres;
    use leastlock_testkit::proxy::{FaultProxy, Then, postgres};
    use leastlock_testkit::{TestDatabase, TestEngine};
    use tokio::time::timeout;

    use super::super::operations::{Adding, LIMIT, Operation, combiner, counter};
    use super::super::seen::{Seen, seen};

    #[test]
    fn deadlock_is_counted_as_such_on_postgres() {
        super::deadlock_is_counted_as_such::<Postgres>();
    }

    /// The reply to the commit is lost, and perhaps those to the questions after it.
    fn reply_lost(can_be_looked_up: bool) -> Seen {
        seen(async |_| {
            let mut database = TestDatabase::<Postgres>::create().await;
            counter(&database).await;
            let proxy = FaultProxy::to_postgres(&database.url).await;
            database.pool = Postgres::connect(&postgres::through(&proxy, &database.url)).await;
            let mut commit = postgres::once(postgres::is_commit());
            proxy.swallow_reply_to(
                move |sql| commit(sql) || !can_be_looked_up && sql.contains("pg_xact_status"),
                Then::Cut,
            );
            let limit = if can_be_looked_up { LIMIT } else { Duration::from_millis(300) };
            let combiner = combiner(&database, &Adding::new()).lookup_time(limit).build();
            let combiner = combiner.expect("the limits are right");
            let answer = timeout(LIMIT, combiner.submit(Operation::Adds)).await.expect("an answer");
            match answer {
                Ok(()) => assert!(can_be_looked_up),
                Err(error) => assert!(!can_be_looked_up && matches!(error, CombineError::Unknown), "{error:?}"),
            }
            assert_eq!(database.int("SELECT value FROM counter").await, 1);
        })
    }

    #[test]
    fn lost_reply_is_unknown_only_if_it_cannot_be_looked_up() {
        for (can_be_looked_up, unknown) in [(true, 0), (false, 1)] {
            let seen = reply_lost(can_be_looked_up);
            assert_eq!(seen.count(OCC_COMBINER_UNKNOWN_TOTAL), unknown);
            assert_eq!(seen.count(OCC_COMBINER_RETRIES_TOTAL), 0);
            assert_eq!(seen.values(OCC_COMBINER_COMMIT_SECONDS).len(), 1, "the commit that was not answered");
            assert_eq!(seen.values(OCC_COMBINER_BATCH_SECONDS).len(), 0, "none was answered");
        }
    }
}
