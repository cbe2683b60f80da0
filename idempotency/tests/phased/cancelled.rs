//! Futures that are dropped at every point at which they wait, as when a client hangs up.

use std::time::{Duration, Instant};

use leastlock_idempotency::Error;
use leastlock_idempotency::phased::{External, PhasedSql, RetryWithSameKey, Run};
use leastlock_testkit::{Drops, TestDatabase, TestEngine, dropped_after};

use crate::bank::{Bank, Manner, charges};
use crate::doubles::{Mistake, Naive};
use crate::payer::{Call, Payer, Product, Told, clear, effects, end_leases, tables};
use crate::steps::{first, phased};

const PATIENCE: Duration = Duration::from_secs(30);

/// Lets leases be over, and pays until the key is at its end.
async fn settle<DB: TestEngine + PhasedSql>(
    (database, bank): (&TestDatabase<DB>, &Bank<DB>),
    payer: &impl Payer<DB>,
    call: Call<'_>,
) -> Told {
    let until = Instant::now() + PATIENCE;
    loop {
        end_leases(database).await;
        match payer.pay(&database.pool, bank, call).await {
            Told::InFlight | Told::Superseded => assert!(Instant::now() < until, "the key is still in flight"),
            told => return told,
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) async fn dropped_at_any_point_the_key_ends_with_one_effect<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, bank) = tables(database).await;
    let product = Product::retrying();
    for manner in [Manner::Answers, Manner::Declines] {
        let expected = if manner == Manner::Answers { (1, 1) } else { (0, 0) };
        let mut drops = Drops::at_least(30);
        while let Some(polls) = drops.next() {
            clear(&database).await;
            let call = Call::new("k1", "lamp").at(manner);
            let told = dropped_after(polls, product.pay(&database.pool, &bank, call)).await;
            let after = settle((&database, &bank), &product, call.by("b")).await;
            assert!(matches!(after, Told::Paid(_) | Told::Replayed(_)), "dropped after {polls} polls: {after:?}");
            let found = (effects(&database).await, charges(&database).await);
            assert_eq!(found, expected, "dropped after {polls} polls");
            drops.ended(told.is_some());
            if let Some(Told::Paid(answer)) = told {
                assert_eq!(after, Told::Replayed(answer));
            }
        }
    }
    // The double: its effect and its record are two transactions, and it begins anew.
    let naive = Naive(Mistake::BeginsAnew);
    let mut drops = Drops::at_least(u32::MAX);
    while let Some(polls) = drops.next() {
        clear(&database).await;
        let call = Call::new("k1", "lamp");
        let told = dropped_after(polls, naive.pay(&database.pool, &bank, call)).await;
        settle((&database, &bank), &naive, call.by("b")).await;
        if effects(&database).await == 2 {
            return;
        }
        drops.ended(told.is_some());
    }
    unreachable!("the double is dropped until it is seen to run twice");
}

pub(crate) async fn run_whose_write_was_dropped_half_way_does_not_go_on<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
) {
    let (database, _bank) = tables(database).await;
    let (mut run, key) = half_way(&database).await;
    let again = run.external::<u32, _>("charge", RetryWithSameKey).await;
    assert!(matches!(again, Err(Error::NoAnswer { .. })), "whether it is recorded is not known here: {again:?}");
    assert!(matches!(run.complete("done".to_owned()).await, Err(Error::NoAnswer { .. })));
    // The next claimant knows.
    end_leases(&database).await;
    let mut run = first(&phased(), &database, &key).await;
    let charge = run.external::<u32, _>("charge", RetryWithSameKey).await.unwrap();
    assert!(matches!(charge, External::Done(7)) || matches!(&charge, External::Todo(attempt) if attempt.number() == 2));
}

/// A run whose record of a step was dropped half-way, and its key. Where the database is quicker than the poll, the next key
/// has its turn.
async fn half_way<DB: TestEngine + PhasedSql>(database: &TestDatabase<DB>) -> (Run<DB, String>, String) {
    for number in 0..100 {
        let key = format!("k{number}");
        let mut run = first(&phased(), database, &key).await;
        let External::Todo(attempt) = run.external::<u32, _>("charge", RetryWithSameKey).await.unwrap() else {
            panic!("a call");
        };
        if dropped_after(1, attempt.done(7)).await.is_none() {
            return (run, key);
        }
    }
    panic!("every write was answered within one poll");
}
