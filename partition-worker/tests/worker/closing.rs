//! Leaving the group in the middle of a seal (on SQLite a held lock would keep the test from looking).

use std::time::Duration;

use leastlock_partition_worker::progress::{Entry, Seal};
use leastlock_partition_worker::{Progress, Timeouts, TopicPartition};
use leastlock_testkit::TestDatabase;

use crate::rig::{Bus, Rig, Told, start};

/// Somebody else's transaction is open, so the seal cannot end, and the consumer's assign call is not made; the worker is
/// stopped all the same, and the next one gets the partition.
pub(crate) async fn p18_a_worker_closes_in_the_middle_of_a_seal<DB: Bus>(database: TestDatabase<DB>) {
    let mut rig = Rig::new(database, 2).await;
    let timeouts = Timeouts { seal: Duration::from_millis(300), ..Timeouts::default() };
    let partition = TopicPartition::new(rig.topic.as_str(), 0);
    for (name, value) in [
        ("partition.assignment.strategy", "range"),
        ("partition.assignment.strategy", "cooperative-sticky"),
        ("group.protocol", "consumer"),
    ] {
        rig.settings = vec![(name, value.to_owned())];
        rig.group = format!("{}-{value}", rig.topic);
        let other = Progress::new(rig.database.pool.clone(), rig.group.as_str(), "other");
        let Ok(Seal::Sealed(sealed)) = other.seal(&partition).await else { panic!("nobody else seals") };
        assert!(other.anchor(&partition, sealed.epoch, 0).await.expect("an anchor"));
        let mut open = other.pool().begin_with(DB::BEGIN_WRITE).await.expect("a transaction");
        assert_eq!(other.enter(&mut open, &partition, sealed.epoch, 0).await.expect("an answer"), Entry::Entered);

        let worker = start(rig.builder_with(timeouts), Told::plain("closing"));
        rig.until("SELECT max(epoch) FROM leastlock_partition_gate", |epoch| epoch > 1, "claim").await;
        let summary = worker.stop().await;
        assert_eq!((summary.processed(), summary.drained), (0, true), "{value}");
        assert_eq!(rig.database.int("SELECT max(epoch) FROM leastlock_partition").await, 1, "{value}: unsealed");
        open.rollback().await.expect("a rollback");

        rig.database.execute("DELETE FROM effect").await;
        rig.produce(&["85123A"], 1..=1).await;
        let next = start(rig.builder_with(timeouts), Told::plain("next"));
        rig.effects(1).await;
        next.stop().await;
        rig.database.execute("DELETE FROM leastlock_partition").await;
        rig.database.execute("DELETE FROM leastlock_partition_gate").await;
    }
}
