//! Duplicates that wait for an owner: on the servers, where waiting is for a row.
#![cfg(any(feature = "postgres", feature = "mysql"))]

use std::time::Duration;

use leastlock_core::Engine;
use leastlock_idempotency::{Begin, BeginIn, IdempotencySql, Keys, OnDuplicate};
use leastlock_testkit::database::sql;
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::{Connection, Pool};

#[cfg(feature = "mysql")]
pub(crate) use crate::idle_bound::{
    idle_bound_of_a_unit_is_put_back_however_it_ends, unit_whose_transaction_has_ended_is_not_completed,
};
pub(crate) use crate::isolation::*;
#[cfg(feature = "postgres")]
pub(crate) use crate::kills::i18_worker_killed_with_a_message_under_way_leaves_one_effect_at_most;
pub(crate) use crate::round_trips::claim_and_answer_cost_what_is_promised_and_a_replay_too;
pub(crate) use crate::stopped_owner::i22_stopped_owners_key_is_free_and_it_cannot_commit;
#[cfg(feature = "postgres")]
pub(crate) use crate::time_outs::stricter_time_outs_of_the_caller_stay;

use crate::keeper::{
    Call, Keeper, Product, Then, Told, clear, effects, fingerprint, insert_effect, key, ran, replayed, tables,
};
use crate::overlap::storm;
use crate::retention::EXPIRE;

/// The double: claims in a transaction of its own, and hands every error to its caller.
struct NeverAgain;

impl<DB: TestEngine + IdempotencySql> Keeper<DB> for NeverAgain {
    async fn place(&self, pool: &Pool<DB>, call: Call<'_>) -> Told {
        if !matches!(call.handler, crate::keeper::Handler::Plain) {
            return Product::waiting().place(pool, call).await;
        }
        let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
        let keys = Keys::builder().on_duplicate(OnDuplicate::Wait(Duration::from_secs(20))).build().unwrap();
        match keys.begin_in::<DB, String>(&mut tx, &key(&call), &fingerprint(call.payload)).await {
            Ok(BeginIn::First(claim)) => {
                insert_effect::<DB>(&mut tx, &call).await;
                let answer = claim.complete(&mut tx, format!("done:{}", call.payload)).await.unwrap();
                tx.commit().await.unwrap();
                Told::Ran(answer)
            }
            Ok(BeginIn::Replay(answer)) => Told::Replayed(answer),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Told::Error(error.to_string()),
        }
    }
}

pub(crate) async fn i23_three_waiters_of_a_rolled_back_owner_run_once_and_see_no_deadlock<
    DB: TestEngine + IdempotencySql,
>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    let duplicates = [Call::new("k1", "lamp"), Call::new("k1", "lamp"), Call::new("k1", "lamp")];
    for round in 0..5 {
        let (first, mut others) = storm(&database, &Product::waiting(), Then::Fails, &duplicates).await;
        others.sort_by_key(|told| *told != ran("lamp"));
        assert_eq!(first, Told::RolledBack);
        assert_eq!(others, [ran("lamp"), replayed("lamp"), replayed("lamp")], "round {round}");
        assert_eq!(effects(&database).await, 1, "round {round}");
    }
    // InnoDB answers the waiters' locks with a deadlock; PostgreSQL does not.
    if DB::ENGINE == Engine::MySql {
        let (_, others) = storm(&database, &NeverAgain, Then::Fails, &duplicates).await;
        assert!(others.iter().any(|told| matches!(told, Told::Error(_))), "the double is not caught: {others:?}");
    }
}

/// Ignores that `begin_in` failed: writes on, and commits.
#[cfg(feature = "mysql")]
struct Stubborn;

#[cfg(feature = "mysql")]
impl Keeper<sqlx::MySql> for Stubborn {
    async fn place(&self, pool: &Pool<sqlx::MySql>, call: Call<'_>) -> Told {
        if !matches!(call.handler, crate::keeper::Handler::Plain) {
            return Product::waiting().place(pool, call).await;
        }
        let keys = Keys::builder().on_duplicate(OnDuplicate::Wait(Duration::from_secs(20))).build().unwrap();
        let mut tx = leastlock_core::begin(pool).await.unwrap();
        sqlx::query("INSERT INTO effect VALUES ('before', 'x')").execute(&mut *tx).await.unwrap();
        let begun = keys.begin_in::<_, String>(&mut tx, &key(&call), &fingerprint(call.payload)).await;
        let told = match begun {
            Ok(BeginIn::First(claim)) => Told::Ran(claim.complete(&mut tx, "done".to_owned()).await.unwrap()),
            Ok(BeginIn::Replay(answer)) => Told::Replayed(answer),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Told::Error(error.to_string()),
        };
        let _ = sqlx::query("INSERT INTO effect VALUES ('after', 'x')").execute(&mut *tx).await;
        let _ = tx.commit().await;
        told
    }
}

/// MariaDB ends a transaction with a deadlock, and sqlx goes on as if it were open.
#[cfg(feature = "mysql")]
pub(crate) async fn caller_that_lost_a_deadlock_commits_nothing(database: TestDatabase<sqlx::MySql>) {
    let database = tables(database).await;
    let duplicates = [Call::new("k1", "lamp"), Call::new("k1", "lamp"), Call::new("k1", "lamp")];
    let (_, told) = storm(&database, &Stubborn, Then::Fails, &duplicates).await;
    let failed = told.iter().filter(|told| matches!(told, Told::Error(_))).count();
    assert!(failed > 0, "a deadlock is what this is about: {told:?}");
    let kept = i64::try_from(2 * (told.len() - failed)).unwrap();
    assert_eq!(effects(&database).await, kept, "{told:?}");
}

/// A caller's transaction that met a wait's time-out, and goes on.
trait Waits<DB: TestEngine> {
    /// Waits for the key in `tx`, in vain; answers whether it says that the transaction can go on.
    async fn wait(&self, tx: &mut sqlx::Transaction<'_, DB>) -> bool;
}

impl<DB: TestEngine + IdempotencySql> Waits<DB> for Keys {
    async fn wait(&self, tx: &mut sqlx::Transaction<'_, DB>) -> bool {
        let waited = self.begin_in::<DB, u32>(tx, &key(&Call::new("k1", "lamp")), &fingerprint("lamp")).await;
        matches!(waited.unwrap(), BeginIn::InFlight { .. })
    }
}

/// The double: the same wait with nothing around it on PostgreSQL, and with the whole transaction undone on MariaDB.
struct WithoutCare;

impl<DB: TestEngine> Waits<DB> for WithoutCare {
    async fn wait(&self, tx: &mut sqlx::Transaction<'_, DB>) -> bool {
        let insert = "INSERT INTO leastlock_idempotency (scope, idempotency_key, fingerprint, state, created_at, expires_at) \
            SELECT '//place-order', 'k1', '', 'claimed', created_at, expires_at FROM stamp";
        let limit = sql::<DB>("SET LOCAL lock_timeout = '50ms'", "SET SESSION innodb_lock_wait_timeout = 0");
        DB::run_query(tx, sqlx::query(limit)).await.unwrap();
        assert!(DB::run_query(tx, sqlx::query(insert)).await.is_err());
        if DB::ENGINE == Engine::MySql {
            DB::run_query(tx, sqlx::query("ROLLBACK")).await.unwrap();
        }
        true
    }
}

pub(crate) async fn i24_wait_that_times_out_leaves_the_transaction_usable<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    // MariaDB knows whole seconds.
    let wait = Duration::from_millis(if DB::ENGINE == Engine::MySql { 1000 } else { 50 });
    let keys = Keys::builder().on_duplicate(OnDuplicate::Wait(wait)).build().unwrap();
    let begun = keys.begin::<DB, u32>(&database.pool, &key(&Call::new("k1", "lamp")), &fingerprint("lamp")).await;
    let Begin::First(owner) = begun.unwrap() else { panic!("the key is free") };

    assert_eq!(kept_around(&database, &keys).await, 2);
    clear_effects(&database).await;
    assert!(kept_around(&database, &WithoutCare).await < 2, "the double must be seen to lose what it did before");
    owner.release().await.unwrap();
}

async fn clear_effects<DB: TestEngine>(database: &TestDatabase<DB>) {
    database.execute("DELETE FROM effect").await;
}

/// Writes before and after a wait in one transaction; answers how much of it was kept.
async fn kept_around<DB: TestEngine>(database: &TestDatabase<DB>, waits: &impl Waits<DB>) -> i64 {
    let mut connection = database.pool.acquire().await.unwrap().detach();
    let mut tx = Connection::begin(&mut connection).await.unwrap();
    let [before, after] = ["INSERT INTO effect VALUES ('before', 'x')", "INSERT INTO effect VALUES ('after', 'x')"];
    DB::run_query(&mut tx, sqlx::query(before)).await.unwrap();
    assert!(waits.wait(&mut tx).await);
    let written = DB::run_query(&mut tx, sqlx::query(after)).await;
    if written.is_ok() {
        tx.commit().await.unwrap();
    }
    effects(database).await
}

pub(crate) async fn rejected_duplicates_do_not_wait<DB: TestEngine + IdempotencySql>(database: TestDatabase<DB>) {
    let database = tables(database).await;
    let rejecting = Product::rejecting();
    let (first, others) = storm(&database, &rejecting, Then::Completes, &vec![Call::new("k1", "lamp"); 4]).await;
    assert_eq!((first, others), (ran("lamp"), vec![Told::InFlight; 4]));
    // Who waits is still waiting when the owner ends, and is then answered with its answer.
    let (_, others) = storm(&database, &Product::waiting(), Then::Completes, &[Call::new("k1", "lamp")]).await;
    assert_eq!(others, [replayed("lamp")]);
    clear(&database).await;
}

/// SQLite's sweep waits for its turn like every writer.
pub(crate) async fn sweep_does_not_wait_for_a_record_that_is_being_claimed<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    let product = Product::waiting();
    for name in ["k1", "k2", "k3"] {
        assert_eq!(product.place(&database.pool, Call::new(name, "lamp")).await, ran("lamp"));
    }
    database.execute(EXPIRE).await;
    let (k2, lamp) = (key(&Call::new("k2", "lamp")), fingerprint("lamp"));
    let Begin::First(unit) = product.0.begin::<DB, u32>(&database.pool, &k2, &lamp).await.unwrap() else {
        panic!("it has expired")
    };
    assert_eq!(product.0.sweep(&database.pool, 10).await.unwrap(), 2);

    // The double: a plain deletion waits for the claimant, here as long as it is let.
    let mut connection = database.pool.acquire().await.unwrap().detach();
    let limit = sql::<DB>("SET lock_timeout = '50ms'", "SET SESSION innodb_lock_wait_timeout = 0");
    DB::run_query(&mut connection, sqlx::query(limit)).await.unwrap();
    let plain = sql::<DB>(
        "DELETE FROM leastlock_idempotency WHERE expires_at <= clock_timestamp()",
        "DELETE FROM leastlock_idempotency WHERE expires_at <= UTC_TIMESTAMP(6)",
    );
    assert!(DB::run_query(&mut connection, sqlx::query(plain)).await.is_err(), "the double must be seen to wait");

    assert_eq!(unit.complete(7).await.unwrap(), 7);
    assert!(matches!(product.0.begin::<DB, u32>(&database.pool, &k2, &lamp).await.unwrap(), Begin::Replay(7)));
}
