//! What a protected transaction sets on its connection on MariaDB, which is put back: the connection goes back to a pool.

use std::time::Duration;

use leastlock_lease::{Fence, Hold};
use sqlx::MySql;
use sqlx::mysql::MySqlPoolOptions;

use crate::rig::{Rig, Sql};
use crate::world::{A_WRITES, leases, lock, write};

#[derive(Debug, Clone, Copy)]
enum Ending {
    Committed,
    Dropped,
    Refused,
    /// The transaction is gone: the commit fails.
    Ended,
}

mod mysql {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn idle_bound_is_put_back_however_a_protected_transaction_ends() {
        let rig = Sql::<MySql>::create().await;
        // One connection, so that whoever comes next has the one that the transaction had.
        let pool = MySqlPoolOptions::new().max_connections(1).connect(&rig.database().url).await.unwrap();
        let lease = leases(&rig).acquire(&lock(), Hold::fixed(Duration::from_mins(10))).await.unwrap();
        let permit = lease.permit().unwrap();
        let (fence, unsealed) = (Fence::new("report").unwrap(), Fence::new("other").unwrap());
        let [fence, unsealed] = [fence, unsealed].map(|fence| fence.idle_timeout(Duration::from_millis(20_500)));
        fence.seal(&pool, &permit).await.unwrap();
        let idle = "SELECT CAST(@@idle_transaction_timeout AS SIGNED)";
        for (own, inside) in [(0, 21), (77, 21), (7, 7)] {
            let set = sqlx::AssertSqlSafe(format!("SET idle_transaction_timeout = {own}"));
            sqlx::raw_sql(set).execute(&pool).await.unwrap();
            for ending in [Ending::Committed, Ending::Dropped, Ending::Refused, Ending::Ended] {
                let fence = if let Ending::Refused = ending { &unsealed } else { &fence };
                match (fence.begin(&pool, &permit).await, ending) {
                    (Err(_), Ending::Refused) => {}
                    (Ok(mut tx), _) => {
                        let bound: i64 = sqlx::query_scalar(idle).fetch_one(&mut **tx).await.unwrap();
                        assert_eq!(bound, inside, "the stricter of the two");
                        write(&mut tx, A_WRITES).await.unwrap();
                        match ending {
                            Ending::Committed => tx.commit().await.unwrap(),
                            Ending::Ended => {
                                sqlx::raw_sql("ROLLBACK").execute(&mut **tx).await.unwrap();
                                assert!(tx.commit().await.is_err(), "it commits nothing, and says so");
                            }
                            _ => drop(tx),
                        }
                    }
                    (Err(error), _) => panic!("{ending:?}: {error:?}"),
                }
                let bound: i64 = sqlx::query_scalar(idle).fetch_one(&pool).await.unwrap();
                assert_eq!(bound, own, "{ending:?}");
            }
        }
        // The double: set for a transaction, and left behind.
        drop(pool.begin_with("SET idle_transaction_timeout = 21; START TRANSACTION").await.unwrap());
        let bound: i64 = sqlx::query_scalar(idle).fetch_one(&pool).await.unwrap();
        assert_eq!(bound, 21, "the double must be seen to leave it behind");
    }
}
