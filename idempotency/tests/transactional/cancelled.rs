//! Futures that are dropped, and errors that are ignored: what is left behind.

use std::time::Duration;

use leastlock_idempotency::{Begin, IdempotencySql, Keys};
use leastlock_testkit::{Drops, TestDatabase, TestEngine, dropped_after};

use crate::doubles::{Mistake, Naive};
use crate::keeper::{Call, Keeper, Told, clear, effects, fingerprint, insert_effect, key, tables};

pub(crate) async fn begin_dropped_at_any_time_leaves_the_key_free<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    let (keys, call) = (Keys::default(), Call::new("k1", "lamp"));
    let (k1, lamp) = (key(&call), fingerprint("lamp"));
    let begin = || async {
        let begun = keys.begin::<DB, u32>(&database.pool, &k1, &lamp).await.unwrap();
        assert!(matches!(begun, Begin::First(_)), "nobody completes it: {begun:?}");
    };
    let mut drops = Drops::at_least(20);
    while let Some(polls) = drops.next() {
        drops.ended(dropped_after(polls, begin()).await.is_some());
    }
    match keys.begin::<DB, u32>(&database.pool, &k1, &lamp).await.unwrap() {
        Begin::First(mut unit) => {
            insert_effect::<DB>(unit.tx(), &call).await;
            unit.complete(7).await.unwrap();
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(effects(&database).await, 1);

    // The double: its claim is committed before its effect, so that a drop in between leaves it behind.
    let apart = Naive(Mistake::ClaimsApart);
    let barrier = tokio::sync::Barrier::new(2);
    let mut told = Told::RolledBack;
    for _ in 0..20 {
        clear(&database).await;
        let hangs =
            Call::new("k1", "lamp").handled(crate::keeper::Handler::Meets(&barrier, crate::keeper::Then::Completes));
        let hanging = tokio::time::timeout(Duration::from_millis(500), apart.place(&database.pool, hangs)).await;
        assert!(hanging.is_err(), "nobody else comes to the barrier");
        told = apart.place(&database.pool, Call::new("k1", "lamp")).await;
        if told == Told::InFlight {
            break;
        }
    }
    assert_eq!(told, Told::InFlight, "the double's key must be seen to stay taken");
}
