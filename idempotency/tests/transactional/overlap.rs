//! Calls that overlap: duplicates sent while the first is inside its handler.

use std::time::Duration;

use futures_util::future::join_all;
use leastlock_core::Engine;
use leastlock_testkit::{TestDatabase, TestEngine, until};
use tokio::sync::Barrier;

use crate::keeper::{Call, Handler, Keeper, Then, Told, clear};

/// How long duplicates get to reach their wait where that cannot be seen (SQLite). There, every order of events gives the
/// same answers; elsewhere the wait is a condition.
const HEAD_START: Duration = Duration::from_millis(300);
/// How long a condition may take to come about.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Two calls, the second sent while the first is inside its handler. Answers what both were told.
pub(crate) async fn overlapping<DB: TestEngine>(
    database: &TestDatabase<DB>,
    keeper: &impl Keeper<DB>,
    then: Then,
    second: Call<'_>,
) -> (Told, Told) {
    let (first, mut others) = storm(database, keeper, then, &[second]).await;
    (first, others.remove(0))
}

/// A first, and the others sent together while it is inside its handler, which goes on once all of them wait or all of
/// them are answered. Answers what the first was told, and what the others were.
pub(crate) async fn storm<DB: TestEngine>(
    database: &TestDatabase<DB>,
    keeper: &impl Keeper<DB>,
    then: Then,
    others: &[Call<'_>],
) -> (Told, Vec<Told>) {
    clear(database).await;
    let barrier = Barrier::new(2);
    let first = Call::new("k1", "lamp").handled(Handler::Meets(&barrier, then));
    let script = async {
        barrier.wait().await;
        let count = i64::try_from(others.len()).expect("a few");
        let others = join_all(others.iter().map(|call| keeper.place(&database.pool, call.clone())));
        tokio::pin!(others);
        let early = tokio::select! {
            told = &mut others => Some(told),
            () = waiting(database, count) => None,
        };
        barrier.wait().await;
        match early {
            Some(told) => told,
            None => others.await,
        }
    };
    // A keeper that never calls its handler never comes to the barrier.
    let both = async { tokio::join!(keeper.place(&database.pool, first), script) };
    tokio::time::timeout(2 * PATIENCE, both).await.expect("all calls end")
}

/// Returns when so many sessions of the database wait for another's lock.
pub(crate) async fn waiting<DB: TestEngine>(database: &TestDatabase<DB>, count: i64) {
    if DB::ENGINE == Engine::Sqlite {
        return tokio::time::sleep(HEAD_START).await;
    }
    let wait = async || database.waiting_for_locks().await >= count;
    until("the others wait for the first", PATIENCE, wait).await;
}
