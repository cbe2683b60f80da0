//! What the phased mode costs: statements that PostgreSQL and MariaDB are asked to execute, counted on the way. SQLite runs in the
//! process of its caller, where there is no way on which to count.

use std::sync::{Arc, Mutex};

use leastlock_core::Engine;
use leastlock_idempotency::phased::{External, Hold, Local, PhasedBegin, PhasedSql, Run};
use leastlock_testkit::TestDatabase;
use leastlock_testkit::proxy::{Proxied, Then};
use sqlx::Pool;
use sqlx::pool::PoolOptions;

use crate::payer::{Call, end_leases, fingerprint, insert_effect, key, tables};
use crate::steps::phased;

async fn begin<DB: PhasedSql>(pool: &Pool<DB>, name: &str) -> PhasedBegin<DB, String> {
    phased().begin(pool, &key(&Call::new(name, "lamp")), &fingerprint("lamp")).await.unwrap()
}

async fn first<DB: PhasedSql>(pool: &Pool<DB>, name: &str) -> Run<DB, String> {
    match begin(pool, name).await {
        PhasedBegin::First(run) => run,
        other => panic!("{name} is no first: {other:?}"),
    }
}

pub(crate) async fn claim_step_and_end_cost_a_statement_each<DB: Proxied + PhasedSql>(database: TestDatabase<DB>) {
    // MariaDB has the transaction of a local step proved to be open.
    let proof = usize::from(DB::ENGINE == Engine::MySql);
    let (database, _bank) = tables(database).await;
    let proxy = DB::proxy(&database.url).await;
    let one = PoolOptions::<DB>::new().max_connections(1).test_before_acquire(false);
    let pool = one.connect(&DB::through(&proxy, &database.url)).await.unwrap();
    let executed = Arc::new(Mutex::new(Vec::<String>::new()));
    let log = Arc::clone(&executed);
    // The rollback of nothing that sqlx sends after MariaDB's commit has nobody who waits for it.
    let record = move |sql: &str| {
        if sql != "ROLLBACK" {
            log.lock().unwrap().push(sql.to_owned());
        }
        false
    };
    proxy.swallow_reply_to(record, Then::Cut);
    let since_last = || std::mem::take(&mut *executed.lock().unwrap()).len();

    // Twice: the first time its statements are prepared.
    for name in ["k0", "k1"] {
        let mut tx = leastlock_core::begin(&pool).await.unwrap();
        insert_effect::<DB>(&mut tx, "bare").await;
        tx.commit().await.unwrap();
        let bare = since_last();

        let mut run = first(&pool, name).await;
        assert_eq!(since_last(), 1, "a claim");
        let Local::Todo(mut step) = run.local::<()>("reserve").await.unwrap() else { panic!("to be done") };
        insert_effect::<DB>(step.tx(), name).await;
        step.done(()).await.unwrap();
        assert_eq!(since_last(), bare + 1 + proof, "a local step");
        let External::Todo(attempt) = run.external::<u32, _>("charge", Hold).await.unwrap() else { panic!("a call") };
        attempt.done(7).await.unwrap();
        assert_eq!(since_last(), 2, "an external step");
        drop(run);
        end_leases(&database).await;
        let mut run = first(&pool, name).await;
        assert_eq!(since_last(), 4, "taking over");
        assert!(matches!(run.local::<()>("reserve").await.unwrap(), Local::Done(())));
        assert!(matches!(run.external::<u32, _>("charge", Hold).await.unwrap(), External::Done(7)));
        assert_eq!(since_last(), 0, "steps that are done");
        run.complete("done".to_owned()).await.unwrap();
        assert_eq!(since_last(), 1, "an end");
        assert!(matches!(begin(&pool, name).await, PhasedBegin::Replay(_)));
        assert_eq!(since_last(), 2, "a replay");

        // The double: one statement more than it needs.
        let run = first(&pool, &format!("{name}-double")).await;
        run.renew().await.unwrap();
        run.release().await.unwrap();
        assert_eq!(since_last(), 3, "one more than a claim and its end must be seen");
    }
}
