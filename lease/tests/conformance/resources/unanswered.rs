//! L22 at a row: the reply to a statement that is its own transaction is lost, or its transaction's never comes to a commit.

use leastlock_lease::{Ending, Error, Released, RowRule, WorkError};
use leastlock_testkit::TestEngine;
use leastlock_testkit::proxy::{FaultProxy, Then, postgres as wire};
use sqlx::Postgres;

use super::rows::{KEY, create_table, int, owned};
use crate::rig::{Rig, Sql};
use crate::world::{fixed, leases, lock};

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn l22_row_whose_write_was_not_answered_leaves_the_lease_to_expire() {
        assert_eq!(ending(WorkError::from).await, Ending::LeftToExpire { outlived: 0 });
        let double = ending(WorkError::known).await;
        assert_eq!(double, Ending::Released(Released::Released), "the double takes what is this crate's own for known");
    }
}

/// The write takes effect, and nobody is told.
async fn ending(judge: fn(Error) -> WorkError) -> Ending {
    let rig = Sql::<Postgres>::create().await;
    let url = &rig.database().url;
    create_table(&rig.database().pool).await;
    let proxy = FaultProxy::to_postgres(url).await;
    let pool = Postgres::connect(&wire::through(&proxy, url)).await;
    let table = owned::<Postgres>();
    let set = table.update(RowRule::Newest, "value = $1").unwrap();
    let lease = leases(&rig).acquire(&lock(), fixed()).await.unwrap();
    let finished = lease
        .run_to_end(async |scope| {
            let permit = scope.permit()?;
            let mut connection = pool.acquire().await?;
            proxy.swallow_reply_to(|sql| sql.contains("UPDATE fenced"), Then::Cut);
            set.execute(&mut *connection, &permit, KEY, |query| query.bind(5_i64)).await.map_err(judge)
        })
        .await;
    assert_eq!(proxy.losses(), 1);
    assert!(matches!(finished.result, Err(Error::Write { retryable: true, .. })), "{:?}", finished.result);
    assert_eq!(int(&rig.database().pool, "SELECT value FROM fenced WHERE id = 7").await, 5, "the write took effect");
    finished.ending
}
