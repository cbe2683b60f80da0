//! What holds on every engine.

#[cfg(any(feature = "postgres", feature = "mysql"))]
use std::time::Duration;

use leastlock_core::Statement;
use leastlock_partition_worker::on_failure::Cause;
use leastlock_partition_worker::parked::{Asked, Copied, Discard, Due, Park, ParkedKey, Parking, Place, Queue};
use leastlock_partition_worker::{Error, MIGRATIONS, Parked, TopicPartition, WorkerSql};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::Transaction;

#[cfg_attr(not(feature = "postgres"), allow(unused_imports, reason = "PostgreSQL alone needs all of it"))]
use crate::doubles::{Follow, Leave, follow_without_lock};

const GROUP: &str = "ledger";
const KEY: &[u8] = b"85123A";
#[cfg(any(feature = "postgres", feature = "mysql"))]
const LIMIT: Duration = Duration::from_mins(1);

pub(crate) trait Tested: TestEngine + WorkerSql {}
impl<DB: TestEngine + WorkerSql> Tested for DB {}

struct Rig<DB: Tested> {
    database: TestDatabase<DB>,
    parking: Parking<DB>,
    parked: Parked<DB>,
}

fn partition() -> TopicPartition {
    TopicPartition::new("stock-moves", 3)
}

fn copy(offset: i64) -> Copied {
    Copied { offset, parking_partition: 1, parking_offset: 100 + offset, attempts: 0 }
}

fn place(queue: Queue) -> Place {
    Place { partition: partition(), queue }
}

impl<DB: Tested> Rig<DB> {
    async fn new(database: TestDatabase<DB>) -> Self {
        let database = database.with(&MIGRATIONS).await;
        database.execute("CREATE TABLE effect (record_offset BIGINT NOT NULL)").await;
        let parking = Parking::new(database.pool.clone(), GROUP);
        let parked = Parked::new(&database.pool, GROUP);
        Self { database, parking, parked }
    }

    async fn begin(&self) -> Transaction<'static, DB> {
        leastlock_core::begin(&self.database.pool).await.expect("a transaction")
    }

    /// Parks a key with the record at `offset`.
    async fn park(&self, key: &[u8], offset: i64) -> Queue {
        let queue = Queue::of_key(key);
        self.park_in(queue, Some(key), true, offset).await;
        queue
    }

    async fn park_in(&self, queue: Queue, key: Option<&[u8]>, blocks: bool, offset: i64) {
        let (cause, reason) = (Cause::Permanent, "no such account");
        let park = Park { queue, key, blocks, parking_topic: "parking", cause, reason };
        let mut tx = self.begin().await;
        let failed = Copied { attempts: 3, ..copy(offset) };
        self.parking.park(&mut tx, &partition(), &park, &failed).await.expect("it is parked");
        leastlock_core::commit(tx).await.expect("a commit");
    }

    async fn follow(&self, queue: Queue, offset: i64) -> bool {
        let mut tx = self.begin().await;
        let followed = self.parking.follow(&mut tx, &partition(), queue, &copy(offset)).await.expect("an answer");
        leastlock_core::commit(tx).await.expect("a commit");
        followed
    }

    /// Handles a released record, as an owner does.
    async fn handle(&self, queue: Queue, offset: i64) -> Due {
        let mut tx = self.begin().await;
        let due = self.parking.take(&mut tx, &partition(), queue, offset).await.expect("an answer");
        if due == Due::Now {
            effect::<DB>(&mut tx, offset).await;
        }
        leastlock_core::commit(tx).await.expect("a commit");
        due
    }

    async fn open(&self, queue: Queue) -> bool {
        let mut tx = self.begin().await;
        let open = self.parking.open(&mut tx, &partition(), queue).await.expect("an answer");
        leastlock_core::commit(tx).await.expect("a commit");
        open
    }

    async fn next(&self, queue: Queue, after: i64) -> Vec<i64> {
        let next = self.parking.next(&partition(), queue, after, 10).await.expect("an answer");
        next.iter().map(|copy| copy.offset).collect()
    }

    async fn release(&self, queue: Queue) -> Asked {
        self.parked.release(&place(queue), "ann", "the account is there now").await.expect("an answer")
    }

    async fn discard(&self, queue: Queue, what: Discard) -> Asked {
        self.parked.discard(&place(queue), what, "ann", "a test record").await.expect("an answer")
    }

    async fn list(&self) -> Vec<ParkedKey> {
        self.parked.list(None, None, 100).await.expect("a list")
    }

    async fn effects(&self) -> i64 {
        self.database.int("SELECT count(*) FROM effect").await
    }
}

async fn effect<DB: Tested>(connection: &mut DB::Connection, offset: i64) {
    let insert = Statement::new(leastlock_testkit::database::sql::<DB>(
        "INSERT INTO effect (record_offset) VALUES ($1)",
        "INSERT INTO effect (record_offset) VALUES (?)",
    ));
    insert.bind(offset).execute::<DB>(connection).await.expect("an effect");
}

pub(crate) async fn p13_records_leave_a_released_queue_in_order_and_then_the_key_is_free<DB: Tested>(
    database: TestDatabase<DB>,
) {
    let rig = Rig::new(database).await;
    let queue = rig.park(KEY, 9).await;
    for offset in [12, 10, 110] {
        assert!(rig.follow(queue, offset).await);
    }
    let standing = rig.parking.queues(&partition(), 10).await.expect("an answer");
    let standing: Vec<_> = standing.iter().map(|one| (one.queue, one.blocks, &*one.parking_topic)).collect();
    assert_eq!(standing, [(queue, true, "parking")]);
    let listed = &rig.list().await[0];
    assert_eq!((listed.key.as_deref(), listed.records, listed.first_offset), (Some(KEY), 4, Some(9)));
    assert_eq!(
        (listed.cause, &*listed.reason, &*listed.parking_topic),
        (Cause::Permanent, "no such account", "parking")
    );
    assert_eq!(rig.handle(queue, 9).await, Due::NotReleased);

    assert_eq!(rig.release(queue).await, Asked::Done);
    let released = rig.parking.released(&partition()).await.expect("an answer");
    let released: Vec<_> = released.iter().map(|one| (one.queue, one.key.as_deref(), &*one.parking_topic)).collect();
    assert_eq!(released, [(queue, Some(KEY), "parking")]);
    assert_eq!(rig.next(queue, -1).await, [9, 10, 12, 110]);
    let first = rig.parking.next(&partition(), queue, -1, 1).await.expect("an answer")[0];
    assert_eq!(first, Copied { offset: 9, parking_partition: 1, parking_offset: 109, attempts: 3 });
    for offset in [9, 10, 12] {
        assert_eq!(rig.handle(queue, offset).await, Due::Now);
        assert!(!rig.open(queue).await, "others wait");
    }
    assert_eq!(rig.handle(queue, 110).await, Due::Now);
    assert!(rig.open(queue).await);
    assert!(rig.list().await.is_empty());
    assert!(!rig.follow(queue, 111).await, "the key is free, so this one is to be handled");
    assert_eq!(rig.effects().await, 4);
}

pub(crate) async fn p13_what_follows_while_a_queue_is_released_leaves_it_before_the_key_is_free<DB: Tested>(
    database: TestDatabase<DB>,
) {
    let rig = Rig::new(database).await;
    let queue = rig.park(KEY, 1).await;
    assert_eq!(rig.release(queue).await, Asked::Done);
    assert_eq!(rig.handle(queue, 1).await, Due::Now);
    assert!(rig.follow(queue, 2).await, "the key is not free yet");
    assert!(!rig.open(queue).await);
    assert_eq!(rig.next(queue, -1).await, [2]);
    assert_eq!(rig.handle(queue, 2).await, Due::Now);
    assert!(rig.open(queue).await);
}

/// A crash right after the effect; the next owner goes on. Answers the number of effects.
async fn effects_after_a_crash<DB: Tested>(database: TestDatabase<DB>, leave: Leave) -> i64 {
    let rig = Rig::new(database).await;
    let queue = rig.park(KEY, 1).await;
    assert_eq!(rig.release(queue).await, Asked::Done);
    let mut tx = rig.begin().await;
    if matches!(leave, Leave::WithTheEffect) {
        assert_eq!(rig.parking.take(&mut tx, &partition(), queue, 1).await.expect("an answer"), Due::Now);
    }
    effect::<DB>(&mut tx, 1).await;
    leastlock_core::commit(tx).await.expect("a commit");
    // Here the first owner dies.
    let _ = rig.handle(queue, 1).await;
    rig.effects().await
}

pub(crate) async fn p13_a_released_record_takes_effect_once<DB: Tested>(database: TestDatabase<DB>) {
    assert_eq!(effects_after_a_crash(database, Leave::WithTheEffect).await, 1);
}

pub(crate) async fn p13_double_a_record_that_leaves_after_its_effect_takes_effect_twice<DB: Tested>(
    database: TestDatabase<DB>,
) {
    assert_eq!(effects_after_a_crash(database, Leave::After).await, 2);
}

pub(crate) async fn a_queue_that_fails_again_is_parked_as_before<DB: Tested>(database: TestDatabase<DB>) {
    let rig = Rig::new(database).await;
    let queue = rig.park(KEY, 1).await;
    assert!(rig.follow(queue, 2).await);
    assert_eq!(rig.release(queue).await, Asked::Done);
    assert_eq!(rig.handle(queue, 1).await, Due::Now);
    let mut tx = rig.begin().await;
    let (at, why) = (partition(), (Cause::Exhausted, "still not"));
    rig.parking.park_again(&mut tx, &at, queue, (2, 5), why).await.expect("it is parked again");
    leastlock_core::commit(tx).await.expect("a commit");
    let listed = &rig.list().await[0];
    assert_eq!(
        (listed.under_way, listed.records, listed.cause, &*listed.reason),
        (false, 1, Cause::Exhausted, "still not")
    );
    assert_eq!(rig.parked.records(&place(queue), None, 10).await.expect("a list")[0].copy.attempts, 5);
    assert_eq!(rig.handle(queue, 2).await, Due::NotReleased);
    assert!(!rig.open(queue).await);
    assert_eq!(rig.release(queue).await, Asked::Done);
    assert_eq!(rig.handle(queue, 2).await, Due::Now);
}

pub(crate) async fn a_record_that_is_parked_alone_holds_up_nothing<DB: Tested>(database: TestDatabase<DB>) {
    let rig = Rig::new(database).await;
    rig.park_in(Queue::of_record(4), None, false, 4).await;
    rig.park_in(Queue::of_record(7), None, false, 7).await;
    let standing = rig.parking.queues(&partition(), 10).await.expect("an answer");
    assert!(standing.iter().all(|one| !one.blocks), "{standing:?}");
    assert_eq!(rig.list().await.iter().filter(|key| key.key.is_none() && !key.blocks).count(), 2);
}

pub(crate) async fn a_discarded_record_is_gone_and_its_key_waits_on<DB: Tested>(database: TestDatabase<DB>) {
    let rig = Rig::new(database).await;
    let queue = rig.park(KEY, 1).await;
    assert!(rig.follow(queue, 2).await);
    assert_eq!(rig.discard(queue, Discard::Record(9)).await, Asked::NotParked);
    assert_eq!(rig.discard(queue, Discard::Record(1)).await, Asked::Done);
    assert_eq!(rig.next(queue, -1).await, [2]);
    assert!(rig.follow(queue, 3).await, "it is parked until it is released");
    assert_eq!(rig.discard(queue, Discard::All).await, Asked::Done);
    assert!(!rig.follow(queue, 4).await, "with its last record gone the key is free");
    assert_eq!(rig.discard(queue, Discard::All).await, Asked::NotParked);
}

pub(crate) async fn what_is_under_way_is_not_asked_for_again<DB: Tested>(database: TestDatabase<DB>) {
    let rig = Rig::new(database).await;
    let queue = rig.park(KEY, 1).await;
    assert_eq!(rig.release(queue).await, Asked::Done);
    assert_eq!(rig.release(queue).await, Asked::UnderWay);
    assert_eq!(rig.discard(queue, Discard::All).await, Asked::UnderWay);
    assert_eq!(rig.handle(queue, 1).await, Due::Now);
    assert_eq!(rig.handle(queue, 1).await, Due::Gone);
}

pub(crate) async fn every_request_has_its_audit_and_an_anonymous_one_is_refused<DB: Tested>(
    database: TestDatabase<DB>,
) {
    let rig = Rig::new(database).await;
    let queue = rig.park(KEY, 1).await;
    assert!(rig.follow(queue, 2).await);
    for (actor, reason) in [(" ", "why"), ("ann", ""), (&*"a".repeat(256), "why")] {
        let refused = rig.parked.release(&place(queue), actor, reason).await;
        assert!(matches!(refused, Err(Error::Unaccounted)), "{refused:?}");
    }
    assert_eq!(rig.discard(queue, Discard::Record(1)).await, Asked::Done);
    assert_eq!(rig.release(queue).await, Asked::Done);
    assert_eq!(rig.release(queue).await, Asked::UnderWay, "what changes nothing leaves no row");
    let history = rig.parked.history(None, 10).await.expect("the audit");
    let rows: Vec<_> = history.iter().map(|row| (&*row.action, row.offset, row.records)).collect();
    assert_eq!(rows, [("release", None, 0), ("discard", Some(1), 1)]);
    assert!(history.iter().all(|row| row.actor == "ann" && row.key.as_deref() == Some(KEY)), "{history:?}");
    assert_eq!(history[0].partition, partition());
    let older = rig.parked.history(Some(history[0].id), 10).await.expect("the audit");
    assert_eq!(older.iter().map(|row| row.id).collect::<Vec<_>>(), [history[1].id]);
}

pub(crate) async fn a_list_goes_on_where_it_ended<DB: Tested>(database: TestDatabase<DB>) {
    let rig = Rig::new(database).await;
    for offset in 0..5 {
        rig.park(format!("key {offset}").as_bytes(), offset).await;
    }
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = rig.parked.list(Some("stock-moves"), after.as_ref(), 2).await.expect("a page");
        let Some(last) = page.last() else { break };
        after = Some(last.place.clone());
        found.extend(page.into_iter().map(|key| key.first_offset.expect("a record")));
    }
    found.sort_unstable();
    assert_eq!(found, [0, 1, 2, 3, 4]);
    assert!(rig.parked.list(Some("another topic"), None, 10).await.expect("a list").is_empty());
}

pub(crate) async fn keys_and_groups_are_told_apart_by_their_bytes<DB: Tested>(database: TestDatabase<DB>) {
    let rig = Rig::new(database).await;
    for (offset, key) in [&b"85123A"[..], b"85123a", b"85123A ", b""].into_iter().enumerate() {
        rig.park(key, i64::try_from(offset).expect("small")).await;
    }
    assert_eq!(rig.list().await.len(), 4);
    let found = rig.parked.find("stock-moves", b"85123a").await.expect("an answer");
    assert_eq!(found.iter().map(|key| key.key.as_deref()).collect::<Vec<_>>(), [Some(&b"85123a"[..])]);
    let others = Parked::new(&rig.database.pool, "LEDGER");
    assert!(others.list(None, None, 10).await.expect("a list").is_empty());
}

/// A record follows its key while an operator discards the whole key; answers how many records are left that no queue knows of.
#[cfg(any(feature = "postgres", feature = "mysql"))]
async fn orphans<DB: Tested>(database: TestDatabase<DB>, follow: Follow) -> i64 {
    let rig = Rig::new(database).await;
    let queue = rig.park(KEY, 1).await;
    let mut tx = rig.begin().await;
    match follow {
        Follow::Real => {
            assert!(rig.parking.follow(&mut tx, &partition(), queue, &copy(2)).await.expect("an answer"));
        }
        Follow::WithoutLock => {
            assert_eq!(rig.parking.queues(&partition(), 10).await.expect("an answer").len(), 1);
            follow_without_lock::<DB>(&mut tx, GROUP, &partition(), queue, &copy(2)).await;
        }
    }
    let parked = rig.parked.clone();
    let discarding = tokio::spawn(async move { parked.discard(&place(queue), Discard::All, "ann", "all of it").await });
    if matches!(follow, Follow::WithoutLock) {
        leastlock_testkit::until("discard that waits for nobody", LIMIT, async || discarding.is_finished()).await;
    } else {
        // Time in which a discard that waits for nobody would be through; no more is asked of it.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!discarding.is_finished(), "a discard waits for whoever holds the queue");
    }
    leastlock_core::commit(tx).await.expect("a commit");
    assert_eq!(discarding.await.expect("no panic").expect("an answer"), Asked::Done);
    rig.database
        .int(
            "SELECT count(*) FROM leastlock_partition_parked_record AS r \
              WHERE NOT EXISTS (SELECT 1 FROM leastlock_partition_parked AS q WHERE q.queue = r.queue)",
        )
        .await
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) async fn p13_a_record_that_follows_beside_a_discard_is_not_lost<DB: Tested>(database: TestDatabase<DB>) {
    assert_eq!(orphans(database, Follow::Real).await, 0);
}

/// (On MariaDB a `DELETE` waits for rows that are not committed yet, so there the queue's lock is not the only thing that helps.)
#[cfg(feature = "postgres")]
pub(crate) async fn p13_double_a_follower_that_does_not_hold_the_queue_is_lost<DB: Tested>(database: TestDatabase<DB>) {
    assert_eq!(orphans(database, Follow::WithoutLock).await, 1);
}
