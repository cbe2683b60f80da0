//! A topic that is deleted and made anew, under a worker or between two.

#[cfg(any(feature = "postgres", feature = "mysql"))]
use std::time::Duration;

use leastlock_core::Statement;
use leastlock_partition_worker::{Error, Progress, TopicPartition};
use leastlock_testkit::TestDatabase;

use crate::rig::{Bus, Rig, Told, start};

const KEY: [&str; 1] = ["85123A"];

/// Three records are handled; then the topic is made anew, with records from 101 on.
async fn made_anew<DB: Bus>(database: TestDatabase<DB>, upto: i64) -> Rig<DB> {
    let mut rig = Rig::new(database, 1).await;
    rig.produce(&KEY, 1..=3).await;
    let first = start(rig.builder(), Told::plain("first"));
    rig.effects(3).await;
    first.stop().await;
    let topic = rig.topic.clone();
    rig.broker.make_anew(&topic, 1).await;
    rig.produce(&KEY, 101..=upto).await;
    rig
}

async fn numbers<DB: Bus>(rig: &Rig<DB>) -> Vec<i64> {
    let mut connection = rig.database.pool.acquire().await.expect("a connection");
    let rows = Statement::new("SELECT number FROM effect ORDER BY id").fetch_all::<DB>(&mut connection).await;
    rows.expect("the effects").iter().map(|row| row.int(0).expect("a number")).collect()
}

async fn rebase<DB: Bus>(rig: &Rig<DB>) {
    let operator = Progress::new(rig.database.pool.clone(), rig.group.as_str(), "operator");
    let partition = TopicPartition::new(rig.topic.as_str(), 0);
    let rebased = operator.rebase(&partition, 0, "anna", "the topic was made anew").await.expect("a rebase");
    assert!(rebased.topic_id.is_some(), "{rebased:?}");
}

async fn stops_until_rebase<DB: Bus>(database: TestDatabase<DB>, upto: i64) {
    let rig = made_anew(database, upto).await;
    for _ in 0..2 {
        let error = start(rig.builder(), Told::plain("second")).ended().await.expect_err("it is another topic");
        assert!(matches!(&error, Error::TopicMadeAnew { topic, .. } if *topic == rig.topic), "{error:?}");
        assert!(!error.is_retryable::<DB>());
    }
    assert_eq!(numbers(&rig).await, [1, 2, 3], "nothing of it is handled");
    rebase(&rig).await;
    let third = start(rig.builder(), Told::plain("third"));
    let all: Vec<i64> = (1..=3).chain(101..=upto).collect();
    rig.effects(i64::try_from(all.len()).expect("small")).await;
    third.stop().await;
    assert_eq!(numbers(&rig).await, all);
}

pub(crate) async fn p19_a_topic_made_anew_with_fewer_records_stops_the_worker_until_rebase<DB: Bus>(
    database: TestDatabase<DB>,
) {
    stops_until_rebase(database, 102).await;
}

pub(crate) async fn p19_a_topic_made_anew_with_more_records_stops_the_worker_until_rebase<DB: Bus>(
    database: TestDatabase<DB>,
) {
    stops_until_rebase(database, 105).await;
}

/// A group that knows its topic by the name alone, as one does whose cluster has no ids.
pub(crate) async fn p19_double_a_topic_known_by_its_name_alone_is_skipped_over<DB: Bus>(database: TestDatabase<DB>) {
    let rig = made_anew(database, 105).await;
    rig.database.execute("UPDATE leastlock_partition SET topic_id = NULL").await;
    let second = start(rig.builder(), Told::plain("second"));
    rig.effects(5).await;
    second.stop().await;
    assert_eq!(numbers(&rig).await, [1, 2, 3, 104, 105], "101 to 103 are never handled");
}

/// Of the new topic, what is fetched before the worker has looked may be handled twice, and nothing is skipped.
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) async fn p19_a_topic_made_anew_under_the_worker_stops_it<DB: Bus>(database: TestDatabase<DB>) {
    let mut rig = Rig::new(database, 1).await;
    rig.produce(&KEY, 1..=3).await;
    let worker = start(rig.builder().look_every(Duration::from_millis(200)), Told::plain("first"));
    rig.effects(3).await;
    let topic = rig.topic.clone();
    rig.broker.make_anew(&topic, 1).await;
    rig.produce(&KEY, 101..=105).await;
    let error = worker.ended().await.expect_err("the topic is another one");
    // A fetch at the old offset may find the new log too short before the worker has looked.
    let is_told = |error: &Error| match error {
        Error::TopicMadeAnew { topic, .. } => *topic == rig.topic,
        error => matches!(error, Error::OffsetOutOfRange { .. }),
    };
    assert!(is_told(&error), "{error:?}");
    rebase(&rig).await;
    let next = start(rig.builder(), Told::plain("next"));
    // What the first has handled of the new topic is handled again.
    let of_next = "SELECT count(*) FROM effect WHERE owner = 'next'";
    rig.until(of_next, |found| found == 5, "effects of all new records").await;
    next.stop().await;
    let handled = numbers(&rig).await;
    let (_before, after) = handled.split_at(handled.len() - 5);
    assert_eq!(after, [101, 102, 103, 104, 105], "{handled:?}");
}
