use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leastlock_core::{Dialect, Statement};
use leastlock_lease::{Acquire, Error, Leases};
use leastlock_testkit::database::sql;
use sqlx::Pool;

use super::doubles::Guard;
use super::suite::fence;
use crate::rig::Rig;
use crate::world::{eventually, fixed, leases, lock};

const HOLDERS: u64 = 5;
const WRITES: i64 = 120;
const WRITTEN: &str = "SELECT COUNT(*) FROM history";
/// Writes that stand behind one of a newer generation.
const STALE: &str = "SELECT COUNT(*) FROM history AS late WHERE EXISTS \
    (SELECT 1 FROM history AS early WHERE early.place < late.place AND early.generation > late.generation)";

/// Holders that are expired at random go on as if nothing were; each write appends its generation.
pub(crate) async fn generations_never_go_back_in_the_history_of_a_resource<R: Rig>(rig: R) {
    // The place is taken under the check's lock, so it follows the order of generations if that lock does its work.
    rig.database().execute("CREATE TABLE history (place BIGINT PRIMARY KEY, generation BIGINT NOT NULL)").await;
    let seed = fastrand::u64(..);
    play(&rig, Guard::Right, seed, async || rig.database().int(WRITTEN).await >= WRITES).await;
    assert_eq!(rig.database().int(STALE).await, 0, "seed {seed}");
    assert!(
        rig.database().int("SELECT COUNT(DISTINCT generation) FROM history").await > 3,
        "seed {seed}: a dull history"
    );

    rig.database().execute("DELETE FROM history").await;
    play(&rig, Guard::Absent, seed, async || rig.database().int(STALE).await > 0).await;
}

async fn play<R: Rig>(rig: &R, guard: Guard, seed: u64, mut enough: impl AsyncFnMut() -> bool) {
    let over = Arc::new(AtomicBool::new(false));
    let holders: Vec<_> = (0..HOLDERS)
        .map(|number| {
            let (leases, pool, over) = (leases(rig), rig.database().pool.clone(), Arc::clone(&over));
            let random = fastrand::Rng::with_seed(seed.wrapping_add(number));
            tokio::spawn(hold_and_write::<R>(leases, pool, guard, random, over))
        })
        .collect();
    let (mut written, mut looks) = (0, 0);
    eventually("enough has been written", async || {
        // On a busy machine holders that are expired at every look would never come to a write.
        let now = rig.database().int(WRITTEN).await;
        looks += 1;
        if now > written || looks % 20 == 0 {
            rig.expire().await;
            written = now;
        }
        enough().await
    })
    .await;
    over.store(true, Ordering::SeqCst);
    for holder in holders {
        holder.await.unwrap();
    }
}

async fn hold_and_write<R: Rig>(
    leases: Leases<R::Store>,
    pool: Pool<R::DB>,
    guard: Guard,
    mut random: fastrand::Rng,
    over: Arc<AtomicBool>,
) {
    while !over.load(Ordering::SeqCst) {
        // Nobody waits to be told: that a lease has run out is an event on few stores.
        let lease = match leases.acquire_with(&lock(), fixed(), Acquire::fail_fast()).await {
            Ok(lease) => lease,
            Err(Error::Held { .. }) => {
                tokio::time::sleep(Duration::from_millis(random.u64(1..8))).await;
                continue;
            }
            Err(error) => panic!("{error:?}"),
        };
        let permit = lease.permit().unwrap();
        match fence().seal(&pool, &permit).await {
            Ok(_) | Err(Error::Refused { .. }) => {}
            Err(error) if error.is_retryable() => {}
            Err(error) => panic!("{error:?}"),
        }
        for _ in 0..random.u8(1..6) {
            tokio::time::sleep(Duration::from_millis(random.u64(0..8))).await;
            let mut tx = pool.begin_with(R::DB::BEGIN_WRITE).await.unwrap();
            if guard.passes(&fence(), &pool, &mut tx, &permit).await {
                let append = Statement::new(sql::<R::DB>(
                    "INSERT INTO history SELECT COALESCE(MAX(place), 0) + 1, $1 FROM history WHERE $1 > 0",
                    "INSERT INTO history SELECT COALESCE(MAX(place), 0) + 1, ? FROM history",
                ));
                // Two of one generation never write at once; two of different ones must not be able to.
                let appended = append.bind(permit.token().value()).execute::<R::DB>(&mut tx).await;
                if appended.is_ok() {
                    let _ = tx.commit().await;
                }
            }
        }
        let _ = lease.release().await;
    }
}
