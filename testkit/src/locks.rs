//! Who waits for a lock.

use leastlock_core::{Engine, Statement};

use crate::{TestDatabase, TestEngine};

const WAITING: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
/// What begins the part of `InnoDB`'s status that is about transactions.
const TRANSACTIONS: &str = "\nTRANSACTIONS\n";
const DEADLOCK: &str = "LATEST DETECTED DEADLOCK";

impl<DB: TestEngine> TestDatabase<DB> {
    /// How many transactions of this database wait for another's lock; none on SQLite, which does not show them.
    ///
    /// On MariaDB it is read from `InnoDB`'s status and not from `information_schema.innodb_trx`: that is a copy, and while anybody
    /// on the server reads it more than ten times a second it is never brought up to date.
    pub async fn waiting_for_locks(&self) -> i64 {
        match DB::ENGINE {
            Engine::Sqlite => 0,
            Engine::MySql => {
                let (status, name) = self.innodb_status().await;
                let transactions = status.rsplit_once(TRANSACTIONS).map_or("", |(_, transactions)| transactions);
                let waits = |line: &&str| line.contains(&name) && line.ends_with(" waiting");
                i64::try_from(transactions.lines().filter(waits).count()).expect("few")
            }
            _ => self.int(WAITING).await,
        }
    }

    /// How many deadlocks there were in this database; none on SQLite, which has none. MariaDB keeps the server's last one
    /// only: one of these may be missed, none is made up.
    pub async fn deadlocks(&self) -> i64 {
        match DB::ENGINE {
            Engine::Sqlite => 0,
            Engine::MySql => {
                let (status, name) = self.innodb_status().await;
                let last = status.split_once(DEADLOCK).and_then(|(_, rest)| rest.split_once(TRANSACTIONS));
                i64::from(last.is_some_and(|(deadlock, _)| deadlock.contains(&name)))
            }
            _ => self.int("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").await,
        }
    }

    /// What `InnoDB` tells of itself, and the name of this database.
    async fn innodb_status(&self) -> (String, String) {
        let mut connection = self.pool.acquire().await.expect("a connection");
        let mut answers = Vec::new();
        for (ask, column) in [("SHOW ENGINE INNODB STATUS", 2), ("SELECT DATABASE()", 0)] {
            let row = Statement::new(ask).fetch_one::<DB>(&mut connection).await;
            answers.push(row.and_then(|row| row.text(column)).expect("the server tells"));
        }
        let name = answers.pop().unwrap_or_default();
        (answers.concat(), name)
    }
}
