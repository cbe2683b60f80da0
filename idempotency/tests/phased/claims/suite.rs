use leastlock_idempotency::phased::{Phased, PhasedBegin, PhasedSql};
use leastlock_idempotency::{Fingerprint, Key, MIGRATIONS, Scope};
use leastlock_testkit::{TestDatabase, TestEngine};

pub(crate) async fn claim_ends_by_complete_release_or_hold<DB: TestEngine + PhasedSql>(database: TestDatabase<DB>) {
    let database = database.with(&MIGRATIONS).await;
    let phased = Phased::default();
    let key = |name| Key::new(&Scope::of_operation("pay").unwrap(), name).unwrap();
    let lamp = Fingerprint::request("POST", "/pay", "").bytes(b"lamp");
    let begin = async |name| phased.begin::<DB, String>(&database.pool, &key(name), &lamp).await.unwrap();

    let PhasedBegin::First(run) = begin("k1").await else { panic!("a first") };
    assert!(matches!(begin("k1").await, PhasedBegin::InFlight { .. }));
    run.renew().await.unwrap();
    run.complete("done".to_owned()).await.unwrap();
    assert!(matches!(begin("k1").await, PhasedBegin::Replay(answer) if answer == "done"));

    let PhasedBegin::First(run) = begin("k2").await else { panic!("a first") };
    run.release().await.unwrap();
    let PhasedBegin::First(run) = begin("k2").await else { panic!("free again") };
    run.hold("no answer from the bank").await.unwrap();
    let PhasedBegin::Unknown(unknown) = begin("k2").await else { panic!("held") };
    assert_eq!(unknown.held_because.as_deref(), Some("no answer from the bank"));

    let rug = Fingerprint::request("POST", "/pay", "").bytes(b"rug");
    for name in ["k1", "k2"] {
        let other = phased.begin::<DB, String>(&database.pool, &key(name), &rug).await.unwrap();
        assert!(matches!(other, PhasedBegin::Mismatch));
    }
}
