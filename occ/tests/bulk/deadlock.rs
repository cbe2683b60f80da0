//! Bulk updates of the same rows in opposite orders.

use std::sync::Arc;
use std::time::Duration;

use leastlock_core::{ErrorClass, Statement, classify};
use leastlock_occ::{Error, Stored, Update};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Transaction;
use tokio::sync::Barrier;
use tokio::time::timeout;

use super::items::{Item, all};

pub(crate) const ITEMS: usize = 40;
const CLIENTS: usize = 4;

/// Takes one unit of each row; answers of how many it did.
pub(crate) trait TakesOneOfEach<DB: TestEngine>: 'static {
    fn take(
        tx: &mut Transaction<'_, DB>,
        items: &[Item],
        meeting: &Barrier,
    ) -> impl Future<Output = Result<i64, ErrorClass>> + Send;
}

/// The library's.
pub(crate) struct Ordered;

impl<DB: TestEngine> TakesOneOfEach<DB> for Ordered
where
    Item: Stored<DB>,
{
    async fn take(tx: &mut Transaction<'_, DB>, items: &[Item], _: &Barrier) -> Result<i64, ErrorClass> {
        match Item::update_many(tx, items, |item| item.units -= 1).await {
            Ok(outcomes) => {
                let applied = outcomes.iter().filter(|outcome| matches!(outcome, Update::Applied(_))).count();
                Ok(i64::try_from(applied).expect("few"))
            }
            Err(Error::Database { class, .. }) => Err(class),
            Err(error) => panic!("{error}"),
        }
    }
}

/// The double: each row is checked as well, but locked when its turn comes, in the caller's order.
pub(crate) struct AsTheyCome;

const TAKE: &str = "UPDATE item SET units = units - 1, version = version + 1 WHERE id = $1 AND version = $2";
const TAKE_MYSQL: &str = "UPDATE item SET units = units - 1, version = version + 1 WHERE id = ? AND version = ?";

impl<DB: TestEngine> TakesOneOfEach<DB> for AsTheyCome {
    async fn take(tx: &mut Transaction<'_, DB>, items: &[Item], meeting: &Barrier) -> Result<i64, ErrorClass> {
        let mut applied = 0;
        for (n, item) in items.iter().enumerate() {
            let take = Statement::new(sql::<DB>(TAKE, TAKE_MYSQL)).bind(&item.id).bind(item.version.as_i64());
            let rows = take.execute::<DB>(tx).await.map_err(|error| classify::<DB>(&error))?;
            applied += i64::from(rows == 1);
            if n == 0 {
                // Both hold their first row now. A third waits for one of them, so a meeting may not come about.
                let _ = timeout(Duration::from_millis(500), meeting.wait()).await;
            }
        }
        Ok(applied)
    }
}

/// Lets clients take one of each, half of them from the last to the first; answers how many ended in a deadlock.
pub(crate) async fn deadlocks<DB: TestEngine, I: TakesOneOfEach<DB>>(database: &TestDatabase<DB>) -> usize
where
    Item: Stored<DB>,
{
    let before = all(database, ITEMS).await;
    let (begin, meeting) = (Arc::new(Barrier::new(CLIENTS)), Arc::new(Barrier::new(2)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (pool, mut items) = (database.pool.clone(), before.clone());
            let (begin, meeting) = (Arc::clone(&begin), Arc::clone(&meeting));
            if client % 2 == 1 {
                items.reverse();
            }
            tokio::spawn(async move {
                begin.wait().await;
                let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
                let taken = I::take(&mut tx, &items, &meeting).await;
                if taken.is_ok() {
                    tx.commit().await.expect("the commit");
                }
                taken
            })
        })
        .collect();
    let (mut deadlocks, mut taken) = (0, 0);
    for client in clients {
        match client.await.expect("a client ends") {
            Ok(units) => taken += units,
            Err(ErrorClass::Deadlock) => deadlocks += 1,
            Err(class) => panic!("{class:?}"),
        }
    }
    let units = |items: &[Item]| items.iter().map(|item| item.units).sum::<i64>();
    let after = all(database, ITEMS).await;
    assert_eq!(units(&before) - units(&after), taken, "what was answered is what was done");
    deadlocks
}
