//! The guarantees of the transactional mode.

use leastlock_core::Statement;
use leastlock_idempotency::{Begin, BeginIn, Error, IdempotencySql, Keys};
use leastlock_testkit::{TestDatabase, TestEngine};

pub(crate) use crate::cancelled::begin_dropped_at_any_time_leaves_the_key_free;
use crate::doubles::{Mistake, Naive};
pub(crate) use crate::http_response::{
    an_answer_of_another_kind_is_an_error_and_not_run_again, headers_and_body_count_towards_the_limit,
    i13_replayed_http_response_is_the_same_byte_for_byte,
};
use crate::keeper::{
    Call, Handler, Keeper, Product, Then, Told, clear, effects, fingerprint, key, ran, replayed, tables,
};
pub(crate) use crate::kills::i18_worker_killed_at_any_point_leaves_one_effect_at_most;
pub(crate) use crate::letter_case::i21_keys_that_differ_in_case_only_are_two_records;
pub(crate) use crate::outcomes::i11_stored_refusal_is_replayed_and_a_released_one_leaves_the_key_free;
use crate::overlap::overlapping;
pub(crate) use crate::retention::{
    i15_expired_record_has_one_claimant_of_many, record_lives_for_the_retention_from_its_claim,
};
pub(crate) use crate::sealed::*;

pub(crate) async fn i1_duplicates_run_once_and_wait_or_are_told<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    let told = overlapping(&database, &Product::waiting(), Then::Completes, Call::new("k1", "lamp")).await;
    assert_eq!(told, (ran("lamp"), replayed("lamp")));
    assert_eq!(effects(&database).await, 1);

    let (_, second) = overlapping(&database, &Product::rejecting(), Then::Completes, Call::new("k1", "lamp")).await;
    let one_lock_for_all = DB::ENGINE == leastlock_core::Engine::Sqlite;
    assert_eq!(second, if one_lock_for_all { replayed("lamp") } else { Told::InFlight });
    assert_eq!(effects(&database).await, 1);

    let careless = Naive(Mistake::LooksThenInserts);
    overlapping(&database, &careless, Then::Completes, Call::new("k1", "lamp")).await;
    assert_eq!(effects(&database).await, 2, "the double must be seen to run twice");
}

pub(crate) async fn i3_handler_that_changes_its_input_keeps_key_and_fingerprint<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    async fn repeat_after_change<DB: TestEngine>(database: &TestDatabase<DB>, keeper: &impl Keeper<DB>) -> Told {
        clear(database).await;
        let first = Call::new("k1", "lamp").handled(Handler::ChangesItsInput);
        assert_eq!(keeper.place(&database.pool, first).await, ran("lamp"));
        keeper.place(&database.pool, Call::new("k1", "lamp")).await
    }
    let database = tables(database).await;
    assert_eq!(repeat_after_change(&database, &Product::waiting()).await, replayed("lamp"));
    assert_eq!(repeat_after_change(&database, &Naive(Mistake::FingerprintsAtCompletion)).await, Told::Mismatch);
}

pub(crate) async fn i4_failing_duplicate_leaves_the_owners_record<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    async fn repeat_after_failing_duplicate<DB: TestEngine>(db: &TestDatabase<DB>, keeper: &impl Keeper<DB>) -> Told {
        clear(db).await;
        assert_eq!(keeper.place(&db.pool, Call::new("k1", "lamp")).await, ran("lamp"));
        assert_eq!(keeper.place(&db.pool, Call::new("k1", "rug")).await, Told::Mismatch);
        keeper.place(&db.pool, Call::new("k1", "lamp")).await
    }
    let database = tables(database).await;
    assert_eq!(repeat_after_failing_duplicate(&database, &Product::waiting()).await, replayed("lamp"));
    assert_eq!(repeat_after_failing_duplicate(&database, &Naive(Mistake::DeletesOnError)).await, ran("lamp"));
}

pub(crate) async fn i5_other_payload_is_a_mismatch_on_every_path<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    let product = Product::waiting();
    let in_flight = overlapping(&database, &product, Then::Completes, Call::new("k1", "rug")).await;
    assert_eq!(in_flight, (ran("lamp"), Told::Mismatch));
    let completed = product.place(&database.pool, Call::new("k1", "rug")).await;
    assert_eq!(completed, Told::Mismatch);

    // A failure that was stored as the answer is an answer like any other.
    let (k2, lamp, rug) = (key(&Call::new("k2", "")), fingerprint("lamp"), fingerprint("rug"));
    let Begin::First(unit) = product.0.begin(&database.pool, &k2, &lamp).await.unwrap() else { panic!("a first") };
    let stored: Result<(), String> = unit.complete(Err("card declined".to_owned())).await.unwrap();
    assert!(stored.is_err());
    let retry: Begin<DB, Result<(), String>> = product.0.begin(&database.pool, &k2, &rug).await.unwrap();
    assert!(matches!(retry, Begin::Mismatch));
    drop(retry);
    let mut tx = database.pool.begin().await.unwrap();
    let joined: BeginIn<Result<(), String>> = product.0.begin_in(&mut tx, &k2, &rug).await.unwrap();
    assert!(matches!(joined, BeginIn::Mismatch));
    drop(tx);

    let trusting = Naive(Mistake::TrustsWhoeverWaits);
    let (_, second) = overlapping(&database, &trusting, Then::Completes, Call::new("k1", "rug")).await;
    assert_eq!(second, replayed("lamp"), "the double answers a request that it never compared");
}

pub(crate) async fn i6_completed_record_keeps_its_fingerprint<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    async fn stored<DB: TestEngine>(database: &TestDatabase<DB>, keeper: &impl Keeper<DB>) -> Vec<u8> {
        clear(database).await;
        assert_eq!(keeper.place(&database.pool, Call::new("k1", "lamp")).await, ran("lamp"));
        let mut connection = database.pool.acquire().await.unwrap();
        let select = Statement::new("SELECT fingerprint FROM leastlock_idempotency WHERE idempotency_key = 'k1'");
        select.fetch_one::<DB>(&mut connection).await.unwrap().bytes(0).unwrap()
    }
    let database = tables(database).await;
    assert_eq!(stored(&database, &Product::waiting()).await, fingerprint("lamp").as_bytes());
    assert_ne!(stored(&database, &Naive(Mistake::DropsTheFingerprint)).await, fingerprint("lamp").as_bytes());
}

pub(crate) async fn i12_same_key_in_another_scope_is_another_record<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    async fn second_scope<DB: TestEngine>(database: &TestDatabase<DB>, keeper: &impl Keeper<DB>) -> Told {
        clear(database).await;
        assert_eq!(keeper.place(&database.pool, Call::new("k1", "lamp")).await, ran("lamp"));
        keeper.place(&database.pool, Call::new("k1", "lamp").within("cancel-order")).await
    }
    let database = tables(database).await;
    assert_eq!(second_scope(&database, &Product::waiting()).await, ran("lamp"));
    assert_eq!(second_scope(&database, &Naive(Mistake::ForgetsTheScope)).await, replayed("lamp"));
}

pub(crate) async fn i15_expired_record_is_a_new_first_before_any_sweep<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    async fn after_expiry<DB: TestEngine>(database: &TestDatabase<DB>, keeper: &impl Keeper<DB>) -> [Told; 2] {
        clear(database).await;
        assert_eq!(keeper.place(&database.pool, Call::new("k1", "lamp")).await, ran("lamp"));
        database.execute("UPDATE leastlock_idempotency SET expires_at = created_at").await;
        let other = keeper.place(&database.pool, Call::new("k1", "rug")).await;
        [other, keeper.place(&database.pool, Call::new("k1", "rug")).await]
    }
    let database = tables(database).await;
    assert_eq!(after_expiry(&database, &Product::waiting()).await, [ran("rug"), replayed("rug")]);
    assert_eq!(after_expiry(&database, &Naive(Mistake::ForgetsExpiry)).await[0], Told::Mismatch);
}

pub(crate) async fn i19_waiter_of_a_rolled_back_owner_runs_as_first<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    let told = overlapping(&database, &Product::waiting(), Then::Fails, Call::new("k1", "lamp")).await;
    assert_eq!(told, (Told::RolledBack, ran("lamp")));
    assert_eq!(effects(&database).await, 1);

    let apart = Naive(Mistake::ClaimsApart);
    let told = overlapping(&database, &apart, Then::Fails, Call::new("k1", "lamp")).await;
    assert_eq!(told.1, Told::InFlight, "the double's claim outlives its owner");
}

pub(crate) async fn begin_in_joins_the_callers_transaction<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    let (keys, k1, lamp) = (Keys::default(), key(&Call::new("k1", "lamp")), fingerprint("lamp"));
    for rolled_back in [true, false] {
        let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
        let BeginIn::First(claim) = keys.begin_in::<DB, u32>(&mut tx, &k1, &lamp).await.unwrap() else {
            panic!("the key is free");
        };
        assert_eq!(claim.complete(&mut tx, 7).await.unwrap(), 7);
        if rolled_back { tx.rollback().await.unwrap() } else { tx.commit().await.unwrap() }
    }
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    assert!(matches!(keys.begin_in::<DB, u32>(&mut tx, &k1, &lamp).await.unwrap(), BeginIn::Replay(7)));
}

pub(crate) async fn claim_committed_without_an_answer_is_never_run_again<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    let (keys, k1, lamp) = (Keys::default(), key(&Call::new("k1", "lamp")), fingerprint("lamp"));
    let mut tx = database.pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
    let claim = keys.begin_in::<DB, u32>(&mut tx, &k1, &lamp).await.unwrap();
    assert!(matches!(claim, BeginIn::First(_)));
    tx.commit().await.unwrap();
    let next = keys.begin::<DB, u32>(&database.pool, &k1, &lamp).await;
    assert!(matches!(next, Err(Error::CommittedWithoutAnswer)), "{next:?}");
}

pub(crate) async fn answer_over_the_limit_is_refused_and_nothing_kept<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    let keys = Keys::builder().max_response_bytes(10).build().unwrap();
    let (k1, lamp) = (key(&Call::new("k1", "lamp")), fingerprint("lamp"));
    let Begin::First(unit) = keys.begin(&database.pool, &k1, &lamp).await.unwrap() else { panic!("a first") };
    let refused = unit.complete("twelve bytes".to_owned()).await;
    assert!(matches!(refused, Err(Error::ResponseTooLarge { bytes: 14, limit: 10 })), "{refused:?}");
    let again: Begin<DB, String> = keys.begin(&database.pool, &k1, &lamp).await.unwrap();
    assert!(matches!(again, Begin::First(_)));
}

pub(crate) async fn sweep_deletes_expired_records_in_batches<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    let product = Product::waiting();
    for number in 0..5 {
        product.place(&database.pool, Call::new(&format!("k{number}"), "lamp")).await;
    }
    assert_eq!(product.0.sweep(&database.pool, 10).await.unwrap(), 0, "nothing has expired");
    database.execute("UPDATE leastlock_idempotency SET expires_at = created_at WHERE idempotency_key <> 'k0'").await;
    assert_eq!(product.0.sweep(&database.pool, 3).await.unwrap(), 3);
    assert_eq!(product.0.sweep(&database.pool, 3).await.unwrap(), 1);
    assert_eq!(product.place(&database.pool, Call::new("k0", "lamp")).await, replayed("lamp"));
}

pub(crate) async fn empty_false_and_zero_are_answers<DB: TestEngine + IdempotencySql>(database: TestDatabase<DB>) {
    let database = tables(database).await;
    let keys = Keys::default();
    let lamp = fingerprint("lamp");
    for (name, answer) in [("empty", serde_json::json!("")), ("false", false.into()), ("zero", 0.into())] {
        let key = key(&Call::new(name, "lamp"));
        for round in 0..2 {
            match keys.begin::<DB, serde_json::Value>(&database.pool, &key, &lamp).await.unwrap() {
                Begin::First(unit) if round == 0 => drop(unit.complete(answer.clone()).await.unwrap()),
                Begin::Replay(replayed) if round == 1 => assert_eq!(replayed, answer),
                other => panic!("round {round}: {other:?}"),
            }
        }
    }
}

/// PostgreSQL only: elsewhere a record that refuses an insert can always be seen.
#[cfg(feature = "postgres")]
pub(crate) async fn i14_invisible_record_is_looked_at_until_known(database: TestDatabase<sqlx::Postgres>) {
    let database = tables(database).await;
    // The second waits inside its insert; the first commits after the second's snapshot was taken.
    let told = overlapping(&database, &Product::waiting(), Then::Completes, Call::new("k1", "lamp")).await;
    assert_eq!(told, (ran("lamp"), replayed("lamp")));
    assert_eq!(effects(&database).await, 1);

    let hasty = Naive(Mistake::TakesInvisibleForFree);
    overlapping(&database, &hasty, Then::Completes, Call::new("k1", "lamp")).await;
    assert_eq!(effects(&database).await, 2, "the double must be seen to run twice");
}
