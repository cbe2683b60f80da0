//! The cases: each is a function over a payer, and judges the product and a double.

use leastlock_core::Statement;
use leastlock_idempotency::phased::PhasedSql;
use leastlock_testkit::{TestDatabase, TestEngine};
use tokio::sync::Barrier;

use crate::bank::{Bank, Manner, charges};
use crate::doubles::{Mistake, Naive};
use crate::payer::{Call, Fate, Payer, Product, Told, clear, effects, end_leases, fingerprint, tables};

fn paid(call: Call<'_>) -> Told {
    Told::Paid(call.answer())
}

fn replayed(call: Call<'_>) -> Told {
    Told::Replayed(call.answer())
}

/// The first pauses with all its steps done; the second comes meanwhile (after the lease if `late`); the first goes on.
async fn overlapping<DB: TestEngine>(
    (database, bank): (&TestDatabase<DB>, &Bank<DB>),
    payer: &impl Payer<DB>,
    late: bool,
    second: Call<'_>,
) -> (Told, Told) {
    clear(database).await;
    let barrier = Barrier::new(2);
    let first = payer.pay(&database.pool, bank, Call::new("k1", "lamp").that(Fate::Pauses(&barrier)));
    let meanwhile = async {
        barrier.wait().await;
        if late {
            end_leases(database).await;
        }
        let told = payer.pay(&database.pool, bank, second).await;
        barrier.wait().await;
        told
    };
    tokio::join!(first, meanwhile)
}

pub(crate) async fn i1_second_of_two_at_once_is_told_that_the_first_is_in_flight<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, bank) = tables(database).await;
    let world = (&database, &bank);
    let (lamp, other) = (Call::new("k1", "lamp"), Call::new("k1", "lamp").by("b"));
    assert_eq!(overlapping(world, &Product::retrying(), false, other).await, (paid(lamp), Told::InFlight));
    assert_eq!((effects(&database).await, charges(&database).await), (1, 1));
    let hasty = Naive(Mistake::TakesOverTheLiving);
    assert_eq!(overlapping(world, &hasty, false, other).await, (Told::Superseded, paid(other)), "the double runs both");
}

pub(crate) async fn i1_of_many_claimants_at_once_one_runs_also_for_a_dead_owners_key<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    /// How many of sixteen at once paid, and how many were neither that nor told to wait nor answered.
    async fn storm<DB: TestEngine>(
        (database, bank): (&TestDatabase<DB>, &Bank<DB>),
        payer: &impl Payer<DB>,
    ) -> (usize, usize) {
        let names: Vec<_> = (0..16).map(|number| format!("claimant-{number}")).collect();
        let pay = |name| payer.pay(&database.pool, bank, Call::new("k1", "lamp").by(name));
        let told = futures_util::future::join_all(names.iter().map(|name| pay(name))).await;
        let count = |is: fn(&Told) -> bool| told.iter().filter(|told| is(told)).count();
        let expected = count(|told| matches!(told, Told::Paid(_) | Told::Replayed(_) | Told::InFlight));
        (count(|told| matches!(told, Told::Paid(_))), told.len() - expected)
    }
    let (database, bank) = tables(database).await;
    let world = (&database, &bank);
    assert_eq!(storm(world, &Product::retrying()).await, (1, 0));
    assert_eq!((effects(&database).await, charges(&database).await), (1, 1));
    clear(&database).await;
    let dies = Call::new("k1", "lamp").that(Fate::DiesAfterCharge);
    assert_eq!(Product::retrying().pay(&database.pool, &bank, dies).await, Told::Died);
    end_leases(&database).await;
    assert_eq!(storm(world, &Product::retrying()).await, (1, 0));
    assert_eq!((effects(&database).await, charges(&database).await), (1, 1));

    // The double looks whether the lease is over, and then takes it without looking again: one after the other does.
    clear(&database).await;
    assert_eq!(Naive(Mistake::BeginsAnew).pay(&database.pool, &bank, dies).await, Told::Died);
    let mut most = 0;
    for _ in 0..20 {
        end_leases(&database).await;
        storm(world, &Naive(Mistake::BeginsAnew)).await;
        most = most.max(effects(&database).await);
        database.execute("UPDATE leastlock_idempotency SET state = 'running', lease_until = created_at").await;
    }
    assert!(most > 2, "the double must be seen to run several at once: {most}");
}

pub(crate) async fn i2_late_owner_changes_nothing_and_is_told<DB: TestEngine + PhasedSql>(database: TestDatabase<DB>) {
    let (database, bank) = tables(database).await;
    let world = (&database, &bank);
    let (other, repeat) = (Call::new("k1", "lamp").by("b"), Call::new("k1", "lamp").by("c"));
    let product = Product::retrying();
    assert_eq!(overlapping(world, &product, true, other).await, (Told::Superseded, paid(other)));
    assert_eq!(product.pay(&database.pool, &bank, repeat).await, replayed(other), "the answer is the new owner's");
    assert_eq!((effects(&database).await, charges(&database).await), (1, 1));

    let unfenced = Naive(Mistake::CompletesUnfenced);
    let (late, _) = overlapping(world, &unfenced, true, other).await;
    assert_eq!(late, paid(Call::new("k1", "lamp")), "the double's late owner takes itself for the owner");
    assert_ne!(unfenced.pay(&database.pool, &bank, repeat).await, replayed(other));
}

pub(crate) async fn i3_handler_that_changes_its_input_keeps_key_and_fingerprint<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    async fn repeat<DB: TestEngine>((database, bank): (&TestDatabase<DB>, &Bank<DB>), payer: &impl Payer<DB>) -> Told {
        clear(database).await;
        let call = Call::new("k1", "lamp");
        assert_eq!(payer.pay(&database.pool, bank, call.that(Fate::ChangesItsInput)).await, paid(call));
        payer.pay(&database.pool, bank, call.by("b")).await
    }
    let (database, bank) = tables(database).await;
    assert_eq!(repeat((&database, &bank), &Product::retrying()).await, replayed(Call::new("k1", "lamp")));
    assert_eq!(repeat((&database, &bank), &Naive(Mistake::FingerprintsAtCompletion)).await, Told::Mismatch);
}

pub(crate) async fn i4_failing_duplicate_leaves_the_owners_record<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    async fn repeat<DB: TestEngine>(world: (&TestDatabase<DB>, &Bank<DB>), payer: &impl Payer<DB>) -> Told {
        let (first, second) = overlapping(world, payer, false, Call::new("k1", "rug").by("b")).await;
        assert_eq!(second, Told::Mismatch);
        drop(first);
        payer.pay(&world.0.pool, world.1, Call::new("k1", "lamp").by("c")).await
    }
    let (database, bank) = tables(database).await;
    assert_eq!(repeat((&database, &bank), &Product::retrying()).await, replayed(Call::new("k1", "lamp")));
    let again = repeat((&database, &bank), &Naive(Mistake::DeletesOnError)).await;
    assert_eq!(again, paid(Call::new("k1", "lamp").by("c")), "the double runs again");
}

pub(crate) async fn i5_other_payload_is_a_mismatch_on_every_path<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, bank) = tables(database).await;
    let (pool, rug) = (&database.pool, |key| Call::new(key, "rug").by("b"));
    let product = Product::holding();
    let (_, in_flight) = overlapping((&database, &bank), &product, false, rug("k1")).await;
    assert_eq!(in_flight, Told::Mismatch);
    assert_eq!(product.pay(pool, &bank, rug("k1")).await, Told::Mismatch, "after completion");

    // Its owner has died, and after that the key is held.
    let dies = Call::new("k2", "lamp").that(Fate::DiesAfterCharge);
    assert_eq!(product.pay(pool, &bank, dies).await, Told::Died);
    end_leases(&database).await;
    assert_eq!(product.pay(pool, &bank, rug("k2")).await, Told::Mismatch, "after its owner died");
    assert_eq!(product.pay(pool, &bank, Call::new("k2", "lamp")).await, Told::Unknown);
    assert_eq!(product.pay(pool, &bank, rug("k2")).await, Told::Mismatch, "while it is held");

    // A failure that was stored as the answer is an answer like any other.
    let declined = product.pay(pool, &bank, Call::new("k3", "lamp").at(Manner::Declines)).await;
    assert_eq!(declined, Told::Paid("declined lamp".to_owned()));
    assert_eq!(product.pay(pool, &bank, rug("k3")).await, Told::Mismatch, "after a failure");

    let trusting = Naive(Mistake::TrustsWhoeverWaits);
    overlapping((&database, &bank), &trusting, false, rug("k1")).await;
    let answer = trusting.pay(pool, &bank, rug("k1")).await;
    assert_eq!(answer, replayed(Call::new("k1", "lamp")), "the double answers a request that it never compared");
}

pub(crate) async fn i6_completed_record_keeps_its_fingerprint<DB: TestEngine + PhasedSql>(database: TestDatabase<DB>) {
    async fn stored<DB: TestEngine>(
        (database, bank): (&TestDatabase<DB>, &Bank<DB>),
        payer: &impl Payer<DB>,
    ) -> Vec<u8> {
        clear(database).await;
        let call = Call::new("k1", "lamp");
        assert_eq!(payer.pay(&database.pool, bank, call).await, paid(call));
        let mut connection = database.pool.acquire().await.unwrap();
        let select = Statement::new("SELECT fingerprint FROM leastlock_idempotency WHERE idempotency_key = 'k1'");
        select.fetch_one::<DB>(&mut connection).await.unwrap().bytes(0).unwrap()
    }
    let (database, bank) = tables(database).await;
    assert_eq!(stored((&database, &bank), &Product::retrying()).await, fingerprint("lamp").as_bytes());
    let dropping = Naive(Mistake::DropsTheFingerprint);
    assert_ne!(stored((&database, &bank), &dropping).await, fingerprint("lamp").as_bytes());
}

pub(crate) async fn i10_dead_owners_key_goes_on_at_its_recovery_point_after_the_lease<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    /// What a repeat is told before and after the end of the lease, and the effects in the database and at the bank.
    async fn after_a_death<DB: TestEngine>(
        (database, bank): (&TestDatabase<DB>, &Bank<DB>),
        payer: &impl Payer<DB>,
        fate: Fate<'_>,
    ) -> (Told, Told, i64, i64) {
        clear(database).await;
        let (dies, repeat) = (Call::new("k1", "lamp").that(fate), Call::new("k1", "lamp").by("b"));
        assert_eq!(payer.pay(&database.pool, bank, dies).await, Told::Died);
        let before = payer.pay(&database.pool, bank, repeat).await;
        end_leases(database).await;
        let after = payer.pay(&database.pool, bank, repeat).await;
        (before, after, effects(database).await, charges(database).await)
    }
    let (database, bank) = tables(database).await;
    let world = (&database, &bank);
    let repeat = paid(Call::new("k1", "lamp").by("b"));
    for fate in [Fate::DiesAfterClaim, Fate::DiesAfterCharge] {
        let outcome = after_a_death(world, &Product::retrying(), fate).await;
        assert_eq!(outcome, (Told::InFlight, repeat.clone(), 1, 1), "{fate:?}");
    }
    let (_, after, ..) = after_a_death(world, &Naive(Mistake::ClaimsForEver), Fate::DiesAfterClaim).await;
    assert_eq!(after, Told::InFlight, "the double's key is never free");
    let (_, _, effects, _) = after_a_death(world, &Naive(Mistake::BeginsAnew), Fate::DiesAfterCharge).await;
    assert_eq!(effects, 2, "the double does a step again that was done");
}

pub(crate) async fn i12_same_key_in_another_scope_is_another_record<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    async fn second_scope<DB: TestEngine>(
        (database, bank): (&TestDatabase<DB>, &Bank<DB>),
        payer: &impl Payer<DB>,
    ) -> (Told, i64) {
        clear(database).await;
        let call = Call::new("k1", "lamp");
        assert_eq!(payer.pay(&database.pool, bank, call).await, paid(call));
        let told = payer.pay(&database.pool, bank, call.within("refund").by("b")).await;
        (told, charges(database).await)
    }
    let (database, bank) = tables(database).await;
    let call = Call::new("k1", "lamp");
    assert_eq!(second_scope((&database, &bank), &Product::retrying()).await, (paid(call.by("b")), 2));
    let double = second_scope((&database, &bank), &Naive(Mistake::ForgetsTheScope)).await;
    assert_eq!(double, (replayed(call), 1));
}

pub(crate) async fn i15_expired_record_is_a_new_first_before_any_sweep<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    async fn after_expiry<DB: TestEngine>(
        (database, bank): (&TestDatabase<DB>, &Bank<DB>),
        payer: &impl Payer<DB>,
    ) -> Told {
        clear(database).await;
        assert_eq!(payer.pay(&database.pool, bank, Call::new("k1", "lamp")).await, paid(Call::new("k1", "lamp")));
        database.execute("UPDATE leastlock_idempotency SET expires_at = created_at").await;
        payer.pay(&database.pool, bank, Call::new("k1", "rug")).await
    }
    let (database, bank) = tables(database).await;
    let (world, product) = ((&database, &bank), Product::retrying());
    assert_eq!(after_expiry(world, &product).await, paid(Call::new("k1", "rug")));
    let repeat = product.pay(&database.pool, &bank, Call::new("k1", "rug").by("b")).await;
    assert_eq!(repeat, replayed(Call::new("k1", "rug")));
    assert_eq!(after_expiry(world, &Naive(Mistake::ForgetsExpiry)).await, Told::Mismatch);
}

pub(crate) async fn i16_claim_outlives_a_handler_that_failed_after_the_call<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    /// A bank that charges every call, and whose first answer is lost. How often is the card charged?
    async fn charged<DB: TestEngine>(
        (database, bank): (&TestDatabase<DB>, &Bank<DB>),
        payer: &impl Payer<DB>,
    ) -> (Told, i64) {
        clear(database).await;
        let (bank, call) = (bank.charging_every_call(), Call::new("k1", "lamp"));
        let silent = payer.pay(&database.pool, &bank, call.at(Manner::ChargesInSilence)).await;
        assert_eq!(silent, Told::Unknown);
        end_leases(database).await;
        let told = payer.pay(&database.pool, &bank, call.by("b")).await;
        (told, charges(database).await)
    }
    let (database, bank) = tables(database).await;
    assert_eq!(charged((&database, &bank), &Product::holding()).await, (Told::Unknown, 1));
    let frees = charged((&database, &bank), &Naive(Mistake::FreesWhatIsUnknown)).await;
    assert_eq!(frees, (paid(Call::new("k1", "lamp").by("b")), 2), "the double charges twice");
}

pub(crate) async fn i17_provider_key_is_the_same_over_retries_and_restarts<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    /// How many keys the bank has seen, which charges once per key.
    async fn keys_seen<DB: TestEngine>(
        (database, bank): (&TestDatabase<DB>, &Bank<DB>),
        payer: &impl Payer<DB>,
    ) -> i64 {
        clear(database).await;
        let call = Call::new("k1", "lamp");
        let silent = payer.pay(&database.pool, bank, call.at(Manner::ChargesInSilence)).await;
        assert_eq!(silent, Told::Unknown);
        end_leases(database).await;
        assert_eq!(payer.pay(&database.pool, bank, call.by("b").that(Fate::DiesAfterCharge)).await, Told::Died);
        end_leases(database).await;
        assert_eq!(payer.pay(&database.pool, bank, call.by("c")).await, paid(call.by("c")));
        charges(database).await
    }
    let (database, bank) = tables(database).await;
    assert_eq!(keys_seen((&database, &bank), &Product::retrying()).await, 1);
    assert_eq!(keys_seen((&database, &bank), &Naive(Mistake::RenewsTheProviderKey)).await, 3);
}
