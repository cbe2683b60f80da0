//! O17: which version a conflict names that was found after a wait for another writer.

use std::marker::PhantomData;
use std::time::Duration;

use leastlock_core::{Dialect, Engine, Statement};
use leastlock_occ::{Column, Stored};
use leastlock_testkit::{TestDatabase, TestEngine, until};
use sqlx::Pool;
use tokio::sync::oneshot;

use super::accounts::{Account, Accounts, Derived, HandWritten, VERSION, Verdict, adding, load, reset};

/// Far beyond what a statement needs to reach a lock on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);
const RIVAL: &str = "UPDATE account SET balance = balance + 5, version = version + 6 WHERE id = 'a'";
/// REPEATABLE READ is the default of MySQL; its snapshot is taken at once here, not by the first read.
const BEGIN_OLD_SNAPSHOT: &str =
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION WITH CONSISTENT SNAPSHOT";

/// Adds to account `a`, expecting version 1; says when the writing is about to begin.
pub(crate) trait LateWriter<DB: TestEngine> {
    fn add(
        pool: Pool<DB>,
        account: Account,
        ready: oneshot::Sender<()>,
    ) -> impl Future<Output = Verdict> + Send + 'static;
}

/// In a transaction of the caller's whose snapshot is from before the rival's commit (MySQL only: PostgreSQL and SQLite
/// refuse such a write).
pub(crate) struct OnAnOldSnapshot<I>(PhantomData<I>);

macro_rules! late_writer {
    ($real:ty as $writer:ty, $begin:expr) => {
        impl<DB: TestEngine> LateWriter<DB> for $writer
        where
            Account: Stored<DB>,
            i64: Column<DB>,
        {
            async fn add(pool: Pool<DB>, mut account: Account, ready: oneshot::Sender<()>) -> Verdict {
                // SQLite waits in its `BEGIN IMMEDIATE`.
                let (before, after) =
                    if DB::ENGINE == Engine::MySql { (None, Some(ready)) } else { (Some(ready), None) };
                before.map_or(Ok(()), |ready| ready.send(())).expect("the rival listens");
                let mut tx = pool.begin_with($begin).await.expect("a transaction");
                after.map_or(Ok(()), |ready| ready.send(())).expect("the rival listens");
                let verdict = <$real as Accounts<DB>>::add(&mut tx, &mut account, 10).await;
                tx.commit().await.expect("the commit");
                verdict
            }
        }
    };
}
late_writer!(Derived as Derived, DB::BEGIN_WRITE);
late_writer!(HandWritten as HandWritten, DB::BEGIN_WRITE);
late_writer!(Derived as OnAnOldSnapshot<Derived>, BEGIN_OLD_SNAPSHOT);
late_writer!(HandWritten as OnAnOldSnapshot<HandWritten>, BEGIN_OLD_SNAPSHOT);

/// Reads the actual version after the wait, but as its transaction's snapshot has it.
pub(crate) struct ReadsItsOldSnapshot;

impl<DB: TestEngine> LateWriter<DB> for ReadsItsOldSnapshot {
    async fn add(pool: Pool<DB>, account: Account, ready: oneshot::Sender<()>) -> Verdict {
        let expected = account.version.as_i64();
        let mut tx = pool.begin_with(BEGIN_OLD_SNAPSHOT).await.expect("a transaction");
        ready.send(()).expect("the rival listens");
        let add = Statement::new(adding::<DB>()).bind(10).bind(expected);
        if add.execute::<DB>(&mut tx).await.expect("the write") == 1 {
            return Verdict::Applied;
        }
        let read = Statement::new(VERSION).fetch_one::<DB>(&mut tx).await;
        Verdict::Stale { expected, actual: read.and_then(|row| row.int(0)).expect("a version") }
    }
}

/// Answers the version that it read before it began to wait.
pub(crate) struct ReadsBeforeItWrites;

impl<DB: TestEngine> LateWriter<DB> for ReadsBeforeItWrites {
    async fn add(pool: Pool<DB>, account: Account, ready: oneshot::Sender<()>) -> Verdict {
        let expected = account.version.as_i64();
        let actual = {
            let mut connection = pool.acquire().await.expect("a connection");
            let read = Statement::new(VERSION).fetch_one::<DB>(&mut connection).await;
            read.and_then(|row| row.int(0)).expect("a version")
        };
        ready.send(()).expect("the rival listens");
        let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
        let add = Statement::new(adding::<DB>()).bind(10).bind(expected);
        match add.execute::<DB>(&mut tx).await.expect("the write") {
            0 => Verdict::Stale { expected, actual },
            _ => Verdict::Applied,
        }
    }
}

/// Asks for the outcome and the actual version in one statement, to save a round trip (PostgreSQL only: SQLite has no
/// `UPDATE` inside a `WITH`).
pub(crate) struct AsksInOneStatement;

const ADD_AND_ASK: &str = "WITH added AS (UPDATE account SET balance = balance + $1, version = version + 1 \
    WHERE id = 'a' AND version = $2 RETURNING 1) \
    SELECT (SELECT count(*) FROM added), (SELECT version FROM account WHERE id = 'a')";

impl<DB: TestEngine> LateWriter<DB> for AsksInOneStatement {
    async fn add(pool: Pool<DB>, account: Account, ready: oneshot::Sender<()>) -> Verdict {
        let expected = account.version.as_i64();
        ready.send(()).expect("the rival listens");
        let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
        let row = Statement::new(ADD_AND_ASK).bind(10).bind(expected).fetch_one::<DB>(&mut tx).await;
        let row = row.expect("one row");
        match row.int(0).expect("a count") {
            0 => Verdict::Stale { expected, actual: row.int(1).expect("a version") },
            _ => Verdict::Applied,
        }
    }
}

/// A rival writes the row and commits only when the writer waits for it; answers what the writer says.
pub(crate) async fn conflict_after_a_wait<DB: TestEngine, I: LateWriter<DB>>(database: &TestDatabase<DB>) -> Verdict
where
    Account: Stored<DB>,
{
    reset(database).await;
    let account = load::<DB, Derived>(database).await.expect("the account");
    let mut rival = database.pool.begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
    Statement::new(RIVAL).execute::<DB>(&mut rival).await.expect("the rival's write");

    let (ready, is_ready) = oneshot::channel();
    let writer = tokio::spawn(I::add(database.pool.clone(), account, ready));
    is_ready.await.expect("the writer begins");
    until_blocked(database).await;
    rival.commit().await.expect("the rival's commit");
    writer.await.expect("the writer ends")
}

/// On SQLite the writer waits in its `BEGIN IMMEDIATE` and nothing shows it, but it cannot have begun to write either.
async fn until_blocked<DB: TestEngine>(database: &TestDatabase<DB>) {
    if <DB as Dialect>::ENGINE == Engine::Sqlite {
        return;
    }
    until("the writer waits for its rival", DEADLINE, async || database.waiting_for_locks().await > 0).await;
}
