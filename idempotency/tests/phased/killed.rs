//! I18: a process is killed at every point between claim and reply, and the next one comes.
//!
//! The points are inside the library (feature `failpoints`); the ledger of the bank is written whatever becomes of the process.

use std::time::{Duration, Instant};

use leastlock_core::Statement;
use leastlock_idempotency::phased::{Phased, PhasedBegin, PhasedSql, Resolution, Resolved};
use leastlock_testkit::process::{Child, child_role, hear, speak};
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::bank::{Bank, Manner, charges};
use crate::doubles::{Mistake, Naive};
use crate::payer::{Call, Fate, Payer, Product, Told, clear, effects, end_leases, fingerprint, key, tables};

/// How long a child may take to come to its point, and a key to come to its end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// On the way to a receipt, in the order in which they are passed. `charged` is the bank's.
pub(crate) const FORWARD: [&str; 14] = [
    "begin",
    "claimed",
    "local-begin",
    "local-begun",
    "local-record",
    "local-recorded",
    "local-committed",
    "external-start",
    "external-started",
    "charged",
    "external-record",
    "external-recorded",
    "complete",
    "completed",
];

/// On the way back from a declined card.
pub(crate) const BACK: [&str; 11] = [
    "external-record",
    "external-recorded",
    "compensate",
    "compensating",
    "local-begin:2",
    "local-begun:2",
    "local-record:2",
    "local-recorded:2",
    "local-committed:2",
    "complete",
    "completed",
];

/// Runs `action` in a child of its own and kills it at `point`.
pub(crate) fn kill_at<DB: TestEngine>(database: &TestDatabase<DB>, role: &str, action: &str, point: &str) {
    let envs = [("DATABASE", database.url.as_str()), ("ACTION", action), ("LEASTLOCK_FAILPOINT", point)];
    let mut child = Child::rerun(role, &envs);
    child.line_containing(&format!("at {}", point.split(':').next().unwrap_or_default()), PATIENCE);
    child.kill();
}

/// Lets the dead owner's lease be over, and asks until the key is at its end.
async fn next<DB: TestEngine + PhasedSql>(
    database: &TestDatabase<DB>,
    bank: &Bank<DB>,
    payer: &impl Payer<DB>,
    call: Call<'_>,
) -> Told {
    let until = Instant::now() + PATIENCE;
    loop {
        end_leases(database).await;
        match payer.pay(&database.pool, bank, call).await {
            Told::InFlight => assert!(Instant::now() < until, "the key is still in flight"),
            told => return told,
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn i18_killed_at_any_point_the_key_ends_with_one_effect<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
    role: &str,
) {
    let (database, bank) = tables(database).await;
    let product = Product::retrying();
    for point in FORWARD {
        clear(&database).await;
        kill_at(&database, role, "pay", point);
        let call = Call::new("k1", "lamp").by("b");
        let told = next(&database, &bank, &product, call).await;
        // The dead one had told its client only at the last point.
        let expected =
            if point == "completed" { Told::Replayed(call.by("a").answer()) } else { Told::Paid(call.answer()) };
        assert_eq!(told, expected, "killed at {point}");
        assert_eq!((effects(&database).await, charges(&database).await), (1, 1), "killed at {point}");
    }
    for point in BACK {
        clear(&database).await;
        kill_at(&database, role, "decline", point);
        let call = Call::new("k1", "lamp").by("b").at(Manner::Declines);
        let declined = "declined lamp".to_owned();
        let told = next(&database, &bank, &product, call).await;
        let expected = if point == "completed" { Told::Replayed(declined) } else { Told::Paid(declined) };
        assert_eq!(told, expected, "killed at {point}");
        assert_eq!((effects(&database).await, charges(&database).await), (0, 0), "killed at {point}");
    }
    // Of two deaths in a row, the second in the moment of taking over.
    clear(&database).await;
    kill_at(&database, role, "pay", "charged");
    end_leases(&database).await;
    kill_at(&database, role, "pay", "taken-over");
    let call = Call::new("k1", "lamp").by("b");
    assert_eq!(next(&database, &bank, &product, call).await, Told::Paid(call.answer()));
    assert_eq!((effects(&database).await, charges(&database).await), (1, 1));

    // The double begins at the first step again.
    clear(&database).await;
    kill_at(&database, role, "naive", "charged");
    next(&database, &bank, &Naive(Mistake::BeginsAnew), call).await;
    assert_eq!(effects(&database).await, 2, "the double must be seen to run twice");
}

pub(crate) async fn i18_bank_that_charges_every_call_is_never_called_twice_by_itself<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
    role: &str,
) {
    let (database, bank) = tables(database).await;
    let (bank, product) = (bank.charging_every_call(), Product::holding());
    for point in FORWARD {
        clear(&database).await;
        kill_at(&database, role, "pay-once", point);
        let call = Call::new("k1", "lamp").by("b");
        let mut told = next(&database, &bank, &product, call).await;
        let is_unknown = ["external-started", "charged", "external-record"].contains(&point);
        assert_eq!(told == Told::Unknown, is_unknown, "killed at {point}: {told:?}");
        if is_unknown {
            let listed = product.phased.list_unknown(&database.pool, Duration::ZERO, 10).await.unwrap();
            let [unknown] = &listed[..] else { panic!("{listed:?}") };
            let step = unknown.step.as_ref().expect("the call");
            let resolution = if bank.has(step.provider_key.as_str()).await {
                Resolution::step_done(&"receipt").unwrap()
            } else {
                Resolution::step_not_done()
            };
            let resolved = product.phased.resolve(&database.pool, unknown, resolution, "ops", "looked it up").await;
            assert_eq!(resolved.unwrap(), Resolved::Applied);
            told = next(&database, &bank, &product, call).await;
        }
        assert!(matches!(told, Told::Paid(_) | Told::Replayed(_)), "killed at {point}: {told:?}");
        assert_eq!((effects(&database).await, charges(&database).await), (1, 1), "killed at {point}");
    }
    // The double frees what is unknown.
    clear(&database).await;
    kill_at(&database, role, "pay-once", "charged");
    database.execute("DELETE FROM leastlock_idempotency").await;
    next(&database, &bank, &product, Call::new("k1", "lamp").by("b")).await;
    assert_eq!(charges(&database).await, 2, "the double must be seen to charge twice");
}

pub(crate) async fn i18_killed_in_its_end_the_key_is_where_it_was_or_at_that_end<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
    role: &str,
) {
    let (database, _bank) = tables(database).await;
    let phased = Product::retrying().phased;
    for (action, point) in [("hold", "hold"), ("hold", "held"), ("release", "release"), ("release", "released")] {
        clear(&database).await;
        kill_at(&database, role, action, point);
        end_leases(&database).await;
        let key = key(&Call::new("k1", "lamp"));
        let begun = phased.begin::<DB, String>(&database.pool, &key, &fingerprint("lamp")).await.unwrap();
        let is_right = match begun {
            PhasedBegin::Unknown(_) => point == "held",
            PhasedBegin::First(ref run) => (point == "released") == run.resumed_at().is_none() && point != "held",
            _ => false,
        };
        assert!(is_right, "killed at {point}: {begun:?}");
    }
    // In the middle of a resolution: neither the resolution nor its audit.
    clear(&database).await;
    kill_at(&database, role, "hold", "held");
    kill_at(&database, role, "resolve", "resolve-audit");
    assert_eq!(database.int("SELECT count(*) FROM leastlock_idempotency_audit").await, 0);
    let key = key(&Call::new("k1", "lamp"));
    let begun = phased.begin::<DB, String>(&database.pool, &key, &fingerprint("lamp")).await.unwrap();
    assert!(matches!(begun, PhasedBegin::Unknown(_)), "{begun:?}");
}

/// A stopped process is worse than a dead one: it comes back.
pub(crate) async fn i2_stopped_owner_comes_back_after_its_lease_and_is_superseded<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
    role: &str,
) {
    let (database, bank) = tables(database).await;
    let mut child = Child::rerun(role, &[("DATABASE", database.url.as_str()), ("ACTION", "pause")]);
    child.line_containing("all steps done", PATIENCE);
    child.stop();
    let stopped = Instant::now();
    // Its lease of a second ends by itself.
    let (product, call, until) = (Product::retrying(), Call::new("k1", "lamp").by("b"), Instant::now() + PATIENCE);
    let told = loop {
        match product.pay(&database.pool, &bank, call).await {
            Told::InFlight => assert!(Instant::now() < until, "the lease does not end"),
            told => break told,
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    println!("taken over and paid {:?} after its owner was stopped, whose lease was 1 s", stopped.elapsed());
    assert_eq!(told, Told::Paid(call.answer()));
    child.resume();
    child.send_line("go on");
    child.line_containing("told Superseded", PATIENCE);
    assert_eq!(product.pay(&database.pool, &bank, call).await, Told::Replayed(call.answer()));
    assert_eq!((effects(&database).await, charges(&database).await), (1, 1));
}

/// Not on SQLite, where it blocks the file until it goes on or ends.
#[cfg_attr(not(any(feature = "postgres", feature = "mysql")), expect(dead_code))]
pub(crate) async fn owner_stopped_before_a_commit_blocks_its_key_for_the_idle_bound<DB: TestEngine + PhasedSql>(
    database: TestDatabase<DB>,
    role: &str,
) {
    let (database, bank) = tables(database).await;
    let envs = [("DATABASE", database.url.as_str()), ("ACTION", "pause"), ("LEASTLOCK_FAILPOINT", "local-recorded")];
    let mut child = Child::rerun(role, &envs);
    child.line_containing("at local-recorded", PATIENCE);
    child.stop();
    let stopped = Instant::now();
    let (product, call, until) = (Product::retrying(), Call::new("k1", "lamp").by("b"), stopped + PATIENCE);
    let told = loop {
        match product.pay(&database.pool, &bank, call).await {
            Told::InFlight => assert!(Instant::now() < until, "the key stays blocked"),
            told => break told,
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    println!("free {:?} after its owner was stopped, the row locked", stopped.elapsed());
    assert_eq!(told, Told::Paid(call.answer()));
    assert_eq!((effects(&database).await, charges(&database).await), (1, 1), "its step was rolled back");

    // The double has the row in a transaction without a bound.
    let dies = Call::new("k2", "lamp").that(Fate::DiesAfterClaim);
    assert_eq!(product.pay(&database.pool, &bank, dies).await, Told::Died);
    end_leases(&database).await;
    let mut tx = database.pool.begin().await.unwrap();
    let lock = Statement::new(DB::LOCK).bind("//pay").bind("k2");
    assert!(lock.fetch_optional::<DB>(&mut tx).await.unwrap().is_some());
    assert_eq!(product.pay(&database.pool, &bank, Call::new("k2", "lamp")).await, Told::InFlight);
}

/// The child.
pub(crate) async fn act<DB: TestEngine + PhasedSql>(role: &str) {
    if !child_role(role) {
        return;
    }
    let pool = DB::connect(&std::env::var("DATABASE").unwrap()).await;
    let (bank, call) = (Bank::<DB>::at(pool.clone()), Call::new("k1", "lamp"));
    let action = std::env::var("ACTION").unwrap();
    let begin = async || {
        let begun = Phased::default().begin::<DB, String>(&pool, &key(&call), &fingerprint("lamp")).await.unwrap();
        let PhasedBegin::First(run) = begun else { panic!("a first: {begun:?}") };
        run
    };
    // As in service: with the renewal.
    let mut product = Product { phased: Phased::default(), holds: false };
    let told = match action.as_str() {
        "pay" => product.pay(&pool, &bank, call).await,
        "decline" => product.pay(&pool, &bank, call.at(Manner::Declines)).await,
        "pay-briefly" | "decline-briefly" => {
            product.phased = Phased::builder().lease(Duration::from_secs(1)).build().unwrap();
            let manner = if action == "pay-briefly" { Manner::Answers } else { Manner::Declines };
            product.pay(&pool, &bank, call.at(manner)).await
        }
        "naive" => Naive(Mistake::BeginsAnew).pay(&pool, &bank, call).await,
        "pay-once" => {
            product.holds = true;
            product.pay(&pool, &bank.charging_every_call(), call).await
        }
        "pause" => {
            product.phased = Phased::builder().lease(Duration::from_secs(1)).renewed(false).build().unwrap();
            product.pay(&pool, &bank, call.that(Fate::Hears)).await
        }
        "hold" => begin().await.hold("no answer").await.map(|()| Told::Died).unwrap(),
        "release" => begin().await.release().await.map(|()| Told::Died).unwrap(),
        _ => {
            let listed = product.phased.list_unknown(&pool, Duration::ZERO, 10).await.unwrap();
            let resolved = product.phased.resolve(&pool, &listed[0], Resolution::released(), "ops", "a test").await;
            assert_eq!(resolved.unwrap(), Resolved::Applied);
            Told::Died
        }
    };
    speak(format!("told {told:?}"));
    let _ = hear();
}
