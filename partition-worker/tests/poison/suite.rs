//! What holds on every engine.

use std::collections::BTreeMap;

use leastlock_core::Statement;
use leastlock_partition_worker::poison::{Found, Suspects};
use leastlock_partition_worker::{Epoch, MIGRATIONS, TopicPartition, WorkerSql};
use leastlock_testkit::{TestDatabase, TestEngine};

const GROUP: &str = "ledger";
const HELD: u64 = 100;

pub(crate) trait Tested: TestEngine + WorkerSql {}
impl<DB: TestEngine + WorkerSql> Tested for DB {}

fn partition() -> TopicPartition {
    TopicPartition::new("stock-moves", 3)
}

async fn prepared<DB: Tested>(database: TestDatabase<DB>) -> (TestDatabase<DB>, Suspects<DB>) {
    let database = database.with(&MIGRATIONS).await;
    let suspects = Suspects::new(database.pool.clone(), GROUP);
    (database, suspects)
}

async fn begin<DB: Tested>(suspects: &Suspects<DB>, epoch: i64) -> (u64, Vec<(i64, u32)>) {
    let Found { suspects, deaths } = suspects.begin(&partition(), Epoch::new(epoch), HELD).await.expect("an answer");
    (suspects, deaths.into_iter().collect())
}

async fn start<DB: Tested>(suspects: &Suspects<DB>, epoch: i64, offset: i64) -> bool {
    suspects.start(&partition(), Epoch::new(epoch), offset).await.expect("an answer")
}

async fn end<DB: Tested>(suspects: &Suspects<DB>, epoch: i64, left: u64) {
    suspects.end(&partition(), Epoch::new(epoch), left).await.expect("an answer");
}

pub(crate) async fn an_orderly_end_leaves_no_suspect<DB: Tested>(database: TestDatabase<DB>) {
    let (database, suspects) = prepared(database).await;
    assert_eq!(begin(&suspects, 1).await, (0, vec![]));
    end(&suspects, 1, 0).await;
    assert_eq!(begin(&suspects, 2).await, (0, vec![]));
    end(&suspects, 1, 7).await;
    assert_eq!(begin(&suspects, 3).await, (HELD, vec![]), "the end of an earlier owner is not this one's");
    assert_eq!(
        database.int("SELECT count(*) FROM leastlock_partition_suspect").await,
        0,
        "ordinary work leaves no row"
    );
}

pub(crate) async fn a_record_that_runs_at_each_death_is_counted_from_the_second_on<DB: Tested>(
    database: TestDatabase<DB>,
) {
    let (_database, suspects) = prepared(database).await;
    begin(&suspects, 1).await;
    assert_eq!(begin(&suspects, 2).await, (HELD, vec![]), "nobody saw which record the first death came from");
    assert!(start(&suspects, 2, 7).await);
    assert!(start(&suspects, 2, 8).await);
    assert_eq!(begin(&suspects, 3).await, (HELD, vec![(7, 1), (8, 1)]), "it is one of these");
    assert!(start(&suspects, 3, 7).await);
    assert_eq!(begin(&suspects, 5).await, (HELD, vec![(7, 2), (8, 1)]), "it ran alone; epochs may have gaps");
}

pub(crate) async fn a_record_whose_handler_ended_is_not_counted<DB: Tested>(database: TestDatabase<DB>) {
    let (_database, suspects) = prepared(database).await;
    begin(&suspects, 1).await;
    begin(&suspects, 2).await;
    for offset in [7, 8] {
        assert!(start(&suspects, 2, offset).await);
    }
    suspects.alive(&partition(), Epoch::new(2), 7).await.expect("an answer");
    assert_eq!(begin(&suspects, 3).await, (HELD, vec![(8, 1)]));
    // An owner that ends in an orderly way in the middle of a handler has not died of it.
    assert!(start(&suspects, 3, 8).await);
    end(&suspects, 3, HELD).await;
    assert_eq!(begin(&suspects, 4).await, (HELD, vec![(8, 1)]));
}

pub(crate) async fn a_finished_record_is_no_suspect_any_more<DB: Tested>(database: TestDatabase<DB>) {
    let (database, suspects) = prepared(database).await;
    begin(&suspects, 1).await;
    begin(&suspects, 2).await;
    for offset in [7, 8] {
        assert!(start(&suspects, 2, offset).await);
        let mut tx = leastlock_core::begin(&database.pool).await.expect("a transaction");
        suspects.cleared(&mut tx, &partition(), offset).await.expect("an answer");
        if offset == 7 {
            leastlock_core::commit(tx).await.expect("a commit");
        } else {
            tx.rollback().await.expect("a rollback");
        }
    }
    assert_eq!(begin(&suspects, 3).await, (HELD, vec![(8, 1)]), "8 was rolled back");
}

/// The reply to a begin is lost, so the owner begins again. Answers the deaths that are counted.
async fn deaths_after_a_lost_reply<DB: Tested>(database: TestDatabase<DB>, double: bool) -> BTreeMap<i64, u32> {
    let (database, suspects) = prepared(database).await;
    begin(&suspects, 1).await;
    begin(&suspects, 2).await;
    assert!(start(&suspects, 2, 7).await);
    assert_eq!(begin(&suspects, 3).await, (HELD, vec![(7, 1)]));
    assert!(start(&suspects, 3, 7).await);
    if double {
        // Counts whenever somebody begins, whoever it is.
        let mut connection = database.pool.acquire().await.expect("a connection");
        let died = Statement::new(DB::SUSPECT_DIED).bind(GROUP).bind("stock-moves").bind(3_i64);
        died.execute::<DB>(&mut connection).await.expect("it is counted");
    }
    suspects.begin(&partition(), Epoch::new(3), HELD).await.expect("an answer").deaths
}

pub(crate) async fn beginning_again_after_a_lost_reply_counts_nothing_twice<DB: Tested>(database: TestDatabase<DB>) {
    assert_eq!(deaths_after_a_lost_reply(database, false).await, BTreeMap::from([(7, 1)]));
}

pub(crate) async fn double_counting_at_every_begin_counts_one_death_twice<DB: Tested>(database: TestDatabase<DB>) {
    assert_eq!(deaths_after_a_lost_reply(database, true).await, BTreeMap::from([(7, 2)]));
}

pub(crate) async fn an_owner_that_was_taken_over_starts_no_suspect<DB: Tested>(database: TestDatabase<DB>) {
    let (_database, suspects) = prepared(database).await;
    begin(&suspects, 1).await;
    begin(&suspects, 2).await;
    assert!(!start(&suspects, 1, 7).await);
    assert!(start(&suspects, 2, 7).await);
    begin(&suspects, 3).await;
    suspects.alive(&partition(), Epoch::new(2), 7).await.expect("an answer");
    assert_eq!(begin(&suspects, 4).await, (HELD, vec![(7, 1)]));
}

pub(crate) async fn suspects_that_were_not_handled_are_left_to_the_next_owner<DB: Tested>(database: TestDatabase<DB>) {
    let (_database, suspects) = prepared(database).await;
    begin(&suspects, 1).await;
    assert_eq!(begin(&suspects, 2).await, (HELD, vec![]));
    end(&suspects, 2, 40).await;
    assert_eq!(begin(&suspects, 3).await, (40, vec![]));
    end(&suspects, 3, 0).await;
    assert_eq!(begin(&suspects, 4).await, (0, vec![]));
}

/// A killer and an innocent record are suspects through five deaths; answers the deaths held against the innocent one. `alone`: a
/// record that a death is held against has the process for itself, as the worker does it.
async fn deaths_of_an_innocent<DB: Tested>(database: TestDatabase<DB>, alone: bool) -> u32 {
    const KILLER: i64 = 7;
    const INNOCENT: i64 = 8;
    let (_database, suspects) = prepared(database).await;
    begin(&suspects, 1).await;
    for epoch in 2..=6 {
        let found = suspects.begin(&partition(), Epoch::new(epoch), HELD).await.expect("an answer");
        if !alone || !found.deaths.contains_key(&INNOCENT) {
            assert!(start(&suspects, epoch, INNOCENT).await);
        }
        // Here it is, at the latest, that an innocent one alone would have ended well.
        assert!(start(&suspects, epoch, KILLER).await);
    }
    let found = suspects.begin(&partition(), Epoch::new(7), HELD).await.expect("an answer");
    assert_eq!(found.deaths[&KILLER], 5);
    found.deaths[&INNOCENT]
}

pub(crate) async fn a_record_that_runs_beside_a_killer_is_counted_once_at_most<DB: Tested>(database: TestDatabase<DB>) {
    assert_eq!(deaths_of_an_innocent(database, true).await, 1);
}

pub(crate) async fn double_suspects_that_run_beside_each_other_are_all_condemned<DB: Tested>(
    database: TestDatabase<DB>,
) {
    assert_eq!(deaths_of_an_innocent(database, false).await, 5);
}
