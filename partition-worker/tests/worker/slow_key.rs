//! One slow handler beside quick ones of its partition (SQLite lets no second handler run beside it).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use leastlock_partition_worker::Record;
use leastlock_testkit::TestDatabase;
use tokio::sync::{RwLock, Semaphore};

use crate::rig::{Bus, Rig, Told, start, until};

const SLOW: &str = "85123A";
const QUICK: [&str; 6] = ["71053", "84406B", "84029G", "84029E", "22752", "21730"];
/// How long a quick handler takes: so long that the machine is mostly idle.
const TAKES: Duration = Duration::from_millis(40);
/// Records of each quick key: more than can be handled meanwhile.
const EACH: i64 = 200;
/// How long it is looked how many are.
const MEANWHILE: Duration = Duration::from_secs(4);

/// How finished offsets are folded while handlers run.
#[derive(Clone, Copy, PartialEq)]
enum Folds {
    /// As the worker does it.
    Worker,
    /// A fold waits for the handlers that run, twice as long as the last time if that was in vain, and again at once.
    InVain,
}

/// Lets handlers pass together, and the double's fold alone.
type Turnstile = Arc<RwLock<()>>;

async fn fold_in_vain(turnstile: Turnstile) {
    let first = Duration::from_millis(50);
    let mut patience = first;
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let alone = tokio::time::timeout(patience, turnstile.write()).await;
        patience = if alone.is_ok() { first } else { (patience * 2).min(Duration::from_secs(5)) };
    }
}

/// Answers how many quick handlers end meanwhile, with or without a slow one beside them.
async fn quick_ones<DB: Bus>(rig: &mut Rig<DB>, folds: Folds, with_a_slow_one: bool) -> usize {
    rig.topic = rig.broker.topic(1).await;
    rig.group = format!("{}-group", rig.topic);
    // The slow one's record is not the first, so that there is something to be folded below it.
    rig.produce(&QUICK[..1], 1..=1).await;
    let slow: &[&str] = if with_a_slow_one { &[SLOW] } else { &[] };
    rig.produce(slow, 1..=1).await;
    let records = (1..=EACH).flat_map(|number| QUICK.map(|key| (key, number.to_string())));
    join_all(records.map(|(key, number)| rig.broker.produce(&rig.topic, key, number))).await;

    let (gate, turnstile) = (Arc::new(Semaphore::new(0)), Turnstile::default());
    let (entered, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (waits, passes, enters, ends) =
        (Arc::clone(&gate), Arc::clone(&turnstile), Arc::clone(&entered), Arc::clone(&ended));
    let handler = Told::first("slow key", move |record: &Record| {
        let is_slow = record.key() == Some(SLOW.as_bytes());
        let (waits, passes) = (Arc::clone(&waits), Arc::clone(&passes));
        let (enters, ends) = (Arc::clone(&enters), Arc::clone(&ends));
        Box::pin(async move {
            let _pass = if folds == Folds::InVain { Some(passes.read().await) } else { None };
            enters.fetch_add(1, Ordering::SeqCst);
            if is_slow {
                waits.acquire().await.expect("never closed").forget();
            } else {
                tokio::time::sleep(TAKES).await;
                ends.fetch_add(1, Ordering::SeqCst);
            }
            Ok(())
        })
    });
    let builder = rig.builder().concurrency(QUICK.len() + 1);
    let (builder, double) = match folds {
        Folds::Worker => (builder, None),
        Folds::InVain => (builder.fold_every(Duration::from_hours(1)), Some(tokio::spawn(fold_in_vain(turnstile)))),
    };
    let worker = start(builder, handler);
    until("handlers of all keys", || entered.load(Ordering::SeqCst) > QUICK.len()).await;
    let before = ended.load(Ordering::SeqCst);
    tokio::time::sleep(MEANWHILE).await;
    let quick = ended.load(Ordering::SeqCst) - before;
    gate.add_permits(1);
    if let Some(double) = double {
        double.abort();
    }
    let summary = worker.stop().await;
    assert!(summary.drained && summary.partitions.values().all(|of| of.failures == 0), "{summary:?}");
    quick
}

/// What is left of the quick handlers' rate beside a slow one, in percent.
async fn left_of_the_rate<DB: Bus>(database: TestDatabase<DB>, folds: Folds) -> usize {
    let mut rig = Rig::new(database, 1).await;
    let mut quick = BTreeMap::new();
    for with_a_slow_one in [false, true] {
        quick.insert(with_a_slow_one, quick_ones(&mut rig, folds, with_a_slow_one).await);
    }
    let left = quick[&true] * 100 / quick[&false];
    println!("beside a slow handler {left} % of the rate are left: {quick:?}");
    left
}

pub(crate) async fn p10_the_others_keep_their_rate_beside_a_slow_handler<DB: Bus>(database: TestDatabase<DB>) {
    assert!(left_of_the_rate(database, Folds::Worker).await >= 60);
}

pub(crate) async fn p10_double_folds_that_wait_in_vain_stop_the_others<DB: Bus>(database: TestDatabase<DB>) {
    assert!(left_of_the_rate(database, Folds::InVain).await < 60);
}
