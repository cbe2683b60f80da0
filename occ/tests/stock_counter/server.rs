//! What a server tells about locks.

use std::time::Duration;

use leastlock_core::{Engine, Statement};
use leastlock_testkit::{TestDatabase, TestEngine};
use tokio::time::{sleep, timeout};

use super::crowd::LIMIT;

const WAITING: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
const DEADLOCKS: &str = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
/// What begins the part of `InnoDB`'s status that is about transactions.
const TRANSACTIONS: &str = "\nTRANSACTIONS\n";
const DEADLOCK: &str = "LATEST DETECTED DEADLOCK";

/// Returns once a transaction of the test's waits for a row.
pub(crate) async fn waits_for_a_lock<DB: TestEngine>(database: &TestDatabase<DB>) {
    let until = async {
        while waiting(database).await == 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LIMIT, until).await.expect("somebody waits for a lock");
}

/// On MySQL not from `information_schema.innodb_trx`, which is not brought up to date while it is read more than ten times a
/// second.
async fn waiting<DB: TestEngine>(database: &TestDatabase<DB>) -> i64 {
    if DB::ENGINE == Engine::Postgres {
        return database.int(WAITING).await;
    }
    let (status, name) = innodb(database).await;
    let transactions = status.rsplit_once(TRANSACTIONS).map_or("", |(_, transactions)| transactions);
    let waits = |line: &&str| line.contains(&name) && line.ends_with(" waiting");
    i64::try_from(transactions.lines().filter(waits).count()).expect("few")
}

/// How many deadlocks there were in the test's database. MySQL keeps the server's last one only: one of these may be missed,
/// none is made up.
pub(crate) async fn deadlocks<DB: TestEngine>(database: &TestDatabase<DB>) -> i64 {
    if DB::ENGINE == Engine::Postgres {
        return database.int(DEADLOCKS).await;
    }
    let (status, name) = innodb(database).await;
    let last = status.split_once(DEADLOCK).and_then(|(_, rest)| rest.split_once(TRANSACTIONS));
    i64::from(last.is_some_and(|(deadlock, _)| deadlock.contains(&name)))
}

/// `InnoDB`'s status, and the name of the test's database.
async fn innodb<DB: TestEngine>(database: &TestDatabase<DB>) -> (String, String) {
    let mut connection = database.pool.acquire().await.expect("a connection");
    let mut answers = Vec::new();
    for (ask, column) in [("SHOW ENGINE INNODB STATUS", 2), ("SELECT DATABASE()", 0)] {
        let row = Statement::new(ask).fetch_one::<DB>(&mut connection).await;
        answers.push(row.and_then(|row| row.text(column)).expect("the server tells"));
    }
    let name = answers.pop().unwrap_or_default();
    (answers.concat(), name)
}
