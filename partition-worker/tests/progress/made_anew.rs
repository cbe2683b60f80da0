//! A topic that is deleted and made anew: what is finished are records of the earlier one.

use leastlock_core::{ErrorClass, Statement, classify};
use leastlock_partition_worker::on_failure::Cause;
use leastlock_partition_worker::parked::{Copied, Park, Parking, Queue};
use leastlock_partition_worker::poison::{Found, Suspects};
use leastlock_partition_worker::progress::{Entry, Fold, Identity, Seal, Sealed};
use leastlock_partition_worker::{Epoch, Error, Progress, TopicId};
use leastlock_testkit::TestDatabase;

use crate::bench::{Fence, GROUP, Tested, entry, handle, owner, partition, prepared, sealed};

fn topic(bits: u128) -> TopicId {
    TopicId::new(bits).expect("not zero")
}

async fn identity<DB: Tested>(progress: &Progress<DB>, sealed: &Sealed, id: TopicId) -> Identity {
    progress.identify(&partition(), sealed.epoch, id).await.expect("an answer")
}

async fn seal<DB: Tested>(progress: &Progress<DB>) -> Sealed {
    let Seal::Sealed(sealed) = progress.seal(&partition()).await.expect("a seal") else {
        panic!("nobody else seals");
    };
    sealed
}

/// Records 10 to 12 of the first topic are finished, 11 and 12 of them not folded; then there is another topic.
async fn another_topic<DB: Tested>(database: TestDatabase<DB>) -> (TestDatabase<DB>, Progress<DB>) {
    let database = prepared(database).await;
    let progress = owner(&database, "first");
    let first = sealed(&progress, 10).await;
    assert_eq!(first.topic_id, None);
    assert_eq!(identity(&progress, &first, topic(1)).await, Identity::Same, "the first is taken as it is");
    assert_eq!(identity(&progress, &first, topic(1)).await, Identity::Same);
    for offset in 10..=12 {
        assert!(handle(&database, Fence::real::<DB>(), first.epoch, offset).await);
    }
    assert_eq!(progress.fold(&partition(), first.epoch, 11).await.expect("a fold"), Fold::Folded { rows: 1 });
    let next = seal(&progress).await;
    assert_eq!(next.topic_id, Some(topic(1)));
    assert_eq!(identity(&progress, &first, topic(1)).await, Identity::Fenced, "the first owner is none any more");
    let told = identity(&progress, &next, topic(2)).await;
    assert_eq!(told, Identity::Another { known: topic(1) }, "it is another topic");
    (database, progress)
}

/// What of the new topic's records 0 to 12 an owner would not handle.
async fn skipped<DB: Tested>(progress: &Progress<DB>) -> Vec<i64> {
    let sealed = seal(progress).await;
    let next = sealed.next_offset.expect("it is fixed");
    (0..=12).filter(|offset| *offset < next || sealed.finished.contains(*offset)).collect()
}

pub(crate) async fn p19_after_a_rebase_no_record_of_the_new_topic_is_skipped<DB: Tested>(database: TestDatabase<DB>) {
    let (database, progress) = another_topic(database).await;
    let before = seal(&progress).await;
    let rebased = progress.rebase(&partition(), 0, "anna", "the topic was made anew").await.expect("a rebase");
    assert_eq!((rebased.from, rebased.topic_id, rebased.forgotten), (Some(11), Some(topic(1)), 2));
    assert!(rebased.epoch > before.epoch);
    assert_eq!(entry(&progress, before.epoch, 12).await, Entry::Fenced, "who owned it is fenced");
    assert_eq!(skipped(&progress).await, [] as [i64; 0]);
    let after = seal(&progress).await;
    assert_eq!(after.topic_id, None);
    assert_eq!(identity(&progress, &after, topic(2)).await, Identity::Same, "the new one is taken as it is");
    assert!(handle(&database, Fence::real::<DB>(), after.epoch, 12).await);

    let mut connection = database.pool.acquire().await.expect("a connection");
    let columns =
        "SELECT action, actor, reason, topic, from_offset, to_offset, topic_id FROM leastlock_partition_audit";
    let rows = Statement::new(columns).fetch_all::<DB>(&mut connection).await.expect("the audit");
    let texts: Vec<_> = (0..4).map(|column| rows[0].text(column).expect("a text")).collect();
    assert_eq!(texts, ["rebase", "anna", "the topic was made anew", "stock-moves"]);
    assert_eq!((rows[0].int(4).expect("an offset"), rows[0].int(5).expect("an offset")), (11, 0));
    assert_eq!(rows[0].text(6).expect("an id"), topic(1).to_string());
    assert_eq!(rows.len(), 1);
}

/// Sets where to go on and keeps what is finished.
pub(crate) async fn p19_double_a_rebase_that_forgets_nothing_skips_records<DB: Tested>(database: TestDatabase<DB>) {
    let (database, progress) = another_topic(database).await;
    database.execute("UPDATE leastlock_partition SET next_offset = 0, topic_id = NULL").await;
    assert_eq!(skipped(&progress).await, [11, 12]);
}

/// Knows topics by their names alone.
pub(crate) async fn p19_double_without_an_id_the_new_records_are_taken_for_done<DB: Tested>(
    database: TestDatabase<DB>,
) {
    let (database, progress) = another_topic(database).await;
    database.execute("UPDATE leastlock_partition SET topic_id = NULL").await;
    let sealed = seal(&progress).await;
    assert_eq!(identity(&progress, &sealed, topic(2)).await, Identity::Same);
    assert_eq!(skipped(&progress).await, (0..=12).collect::<Vec<_>>());
}

const KEYS: [&[u8]; 2] = [b"85123A", b"71053"];

/// Two keys are parked, with records 10 and 12, and 11; processes have died of record 12.
async fn with_failed_records<DB: Tested>(
    database: TestDatabase<DB>,
) -> (TestDatabase<DB>, Progress<DB>, Parking<DB>, Suspects<DB>) {
    let (database, progress) = another_topic(database).await;
    let parking = Parking::new(database.pool.clone(), GROUP);
    park(&database, &parking, KEYS[0], 10).await.expect("it is parked");
    park(&database, &parking, KEYS[1], 11).await.expect("it is parked");
    let mut tx = leastlock_core::begin(&database.pool).await.expect("a transaction");
    assert!(parking.follow(&mut tx, &partition(), Queue::of_key(KEYS[0]), &copy(12)).await.expect("an answer"));
    leastlock_core::commit(tx).await.expect("a commit");
    let suspects = Suspects::new(database.pool.clone(), GROUP);
    let begin = async |epoch| suspects.begin(&partition(), Epoch::new(epoch), 7).await.expect("it begins");
    begin(1).await;
    begin(2).await;
    assert!(suspects.start(&partition(), Epoch::new(2), 12).await.expect("an answer"));
    assert_eq!(begin(3).await, Found { suspects: 7, deaths: [(12, 1)].into() });
    (database, progress, parking, suspects)
}

fn copy(offset: i64) -> Copied {
    Copied { offset, parking_partition: 0, parking_offset: offset, attempts: 1 }
}

async fn park<DB: Tested>(
    database: &TestDatabase<DB>,
    parking: &Parking<DB>,
    key: &[u8],
    offset: i64,
) -> Result<(), sqlx::Error> {
    let (queue, cause) = (Queue::of_key(key), Cause::Permanent);
    let park = Park { queue, key: Some(key), blocks: true, parking_topic: "parking", cause, reason: "wrong" };
    let mut tx = leastlock_core::begin(&database.pool).await?;
    parking.park(&mut tx, &partition(), &park, &copy(offset)).await?;
    leastlock_core::commit(tx).await
}

/// The offsets that are parked of each key.
async fn parked<DB: Tested>(parking: &Parking<DB>) -> Vec<Vec<i64>> {
    let mut parked = Vec::new();
    for key in KEYS {
        let next = parking.next(&partition(), Queue::of_key(key), -1, 10).await.expect("an answer");
        parked.push(next.iter().map(|copy| copy.offset).collect());
    }
    parked
}

pub(crate) async fn p19_after_a_rebase_nothing_is_parked_that_will_be_handled<DB: Tested>(database: TestDatabase<DB>) {
    let (database, progress, parking, _) = with_failed_records(database).await;
    assert_eq!(parked(&parking).await, [vec![10, 12], vec![11]]);
    let rebased = progress.rebase(&partition(), 11, "anna", "handle 11 and 12 again").await.expect("a rebase");
    assert_eq!((rebased.parked, parked(&parking).await), (2, vec![vec![10], vec![]]));
    let standing = parking.queues(&partition(), 10).await.expect("an answer");
    assert_eq!(standing.iter().map(|one| one.queue).collect::<Vec<_>>(), [Queue::of_key(KEYS[0])], "the other is free");
    let rebased = progress.rebase(&partition(), 0, "anna", "the topic was made anew").await.expect("a rebase");
    assert_eq!((rebased.parked, parked(&parking).await), (1, vec![vec![], vec![]]));
    park(&database, &parking, KEYS[0], 10).await.expect("another record may fail at the same offset");
}

pub(crate) async fn p19_after_a_rebase_no_death_is_held_against_a_new_record<DB: Tested>(database: TestDatabase<DB>) {
    let (_database, progress, _, suspects) = with_failed_records(database).await;
    let rebased = progress.rebase(&partition(), 0, "anna", "the topic was made anew").await.expect("a rebase");
    assert_eq!(suspects.begin(&partition(), rebased.epoch, 7).await.expect("it begins"), Found::default());
}

/// Sets where to go on and keeps what is known of failed records.
pub(crate) async fn p19_double_a_rebase_that_keeps_what_is_parked_meets_it_again<DB: Tested>(
    database: TestDatabase<DB>,
) {
    let (database, _, parking, suspects) = with_failed_records(database).await;
    database.execute("UPDATE leastlock_partition SET next_offset = 0, topic_id = NULL").await;
    database.execute("DELETE FROM leastlock_partition_done").await;
    let met = park(&database, &parking, KEYS[0], 10).await.expect_err("it is parked already");
    assert_eq!(classify::<DB>(&met), ErrorClass::UniqueViolation);
    let found = suspects.begin(&partition(), Epoch::new(9), 7).await.expect("it begins");
    assert_eq!(found.deaths, [(12, 1)].into());
}

pub(crate) async fn a_rebase_says_who_and_why<DB: Tested>(database: TestDatabase<DB>) {
    let database = prepared(database).await;
    let progress = owner(&database, "owner");
    let long = "x".repeat(4_001);
    for (to, actor, reason, wrong) in [
        (-1, "anna", "why", "to"),
        (0, "", "why", "actor"),
        (0, &long[..256], "why", "actor"),
        (0, "anna", "", "reason"),
        (0, "anna", &long, "reason"),
    ] {
        let error = progress.rebase(&partition(), to, actor, reason).await.expect_err("it is refused");
        assert!(matches!(error, Error::Setting { setting, .. } if setting == wrong), "{error:?}");
    }
    assert_eq!(database.int("SELECT count(*) FROM leastlock_partition_gate").await, 0, "nothing was touched");
    let never_worked_on = progress.rebase(&partition(), 7, "anna", "start there").await.expect("a rebase");
    assert_eq!((never_worked_on.from, never_worked_on.topic_id), (None, None));
    assert_eq!(seal(&progress).await.next_offset, Some(7));
}
