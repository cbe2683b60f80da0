//! Workers as they are often written, each with a mistake of its own. They take partitions from each other all the time.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use leastlock_core::Statement;
use leastlock_testkit::database::Postgres;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::message::BorrowedMessage;
use rdkafka::{Message, Offset, TopicPartitionList};
use sqlx::PgPool;

use super::PARTITIONS;
use super::mutant::{LOST, MOMENTS, ONE_STEP, OUTSIDE};
use super::worker::kafka;
use crate::ground::Server;
use crate::part::Part;
use crate::pool::Pooled;

/// Where a worker may be stopped.
pub(super) const ENTERED: &str = "entered";
pub(super) const LOOKED: &str = "looked";
pub(super) const FOLDING: &str = "folding";

/// How long a worker keeps a partition.
const TENURE_MS: std::ops::Range<u64> = 400..1_200;
const LOOK: Duration = Duration::from_millis(100);
/// So many records are finished before their offsets become one number.
const FOLD_EVERY: usize = 5;

/// A partition as its new owner finds it.
struct Sealed {
    partition: i32,
    epoch: i64,
    next_offset: i64,
    finished: HashSet<i64>,
}

struct ByHand {
    part: Part,
    pool: PgPool,
    consumer: StreamConsumer,
    mistake: &'static str,
}

pub(super) async fn play(part: Part, mistake: &'static str) -> anyhow::Result<()> {
    let pool = Postgres::lazy(part.address(Server::Postgres)?, 2)?;
    let mut config = kafka(part.address(Server::Kafka)?);
    config.set("group.id", &part.task.name).set("enable.auto.commit", "false");
    let (consumer, mut rng) = (config.create()?, part.rng());
    let by_hand = ByHand { part, pool, consumer, mistake };
    while !by_hand.part.shutdown.is_cancelled() {
        let time = Duration::from_millis(rng.u64(TENURE_MS));
        // A server that is away is tried again.
        let tenure = by_hand.tenure(rng.i32(0..PARTITIONS), time);
        let _ = by_hand.part.shutdown.run_until_cancelled(tenure).await;
    }
    Ok(())
}

impl ByHand {
    /// Takes a partition, and works on it for a while or until somebody else takes it.
    async fn tenure(&self, partition: i32, time: Duration) -> anyhow::Result<()> {
        let Some(sealed) = self.seal(partition).await? else { return Ok(()) };
        let mut from = TopicPartitionList::new();
        from.add_partition_offset(&self.part.task.name, partition, Offset::Offset(sealed.next_offset))?;
        self.consumer.assign(&from)?;
        let (until, mut watermark, mut open) = (Instant::now() + time, sealed.next_offset, 0);
        while Instant::now() < until {
            let Ok(record) = tokio::time::timeout(LOOK, self.consumer.recv()).await else { continue };
            let record = record?;
            if record.partition() != partition || record.offset() < watermark {
                continue;
            }
            if !sealed.finished.contains(&record.offset()) && !self.handle(&sealed, &record).await? {
                return Ok(());
            }
            (watermark, open) = (record.offset() + 1, open + 1);
            if open == FOLD_EVERY {
                self.fold(&sealed, watermark).await?;
                open = 0;
            }
        }
        self.fold(&sealed, watermark).await
    }

    async fn seal(&self, partition: i32) -> anyhow::Result<Option<Sealed>> {
        let mut connection = self.pool.acquire().await?;
        let number = i64::from(partition);
        let mut finished = None;
        let mut next_offset = None;
        if self.mistake == OUTSIDE {
            finished = Some(finished_of(&mut connection, number).await?);
        }
        if self.mistake == OUTSIDE || self.mistake == MOMENTS {
            let next = Statement::new(include_str!("../../sql/ledger/mutant_next.sql")).bind(number);
            next_offset = Some(next.fetch_one::<Postgres>(&mut connection).await?.int(0)?);
            self.part.point(LOOKED);
        }
        let claim = Statement::new(include_str!("../../sql/ledger/mutant_claim.sql")).bind(number);
        let epoch = claim.fetch_one::<Postgres>(&mut connection).await?.int(0)?;
        let raised = if self.mistake == ONE_STEP {
            Statement::new(include_str!("../../sql/ledger/mutant_next.sql")).bind(number)
        } else {
            Statement::new(include_str!("../../sql/ledger/mutant_raise.sql")).bind(number).bind(epoch)
        };
        let Some(raised) = raised.fetch_optional::<Postgres>(&mut connection).await? else { return Ok(None) };
        let next_offset = next_offset.map_or_else(|| raised.int(0), Ok)?;
        let finished = match finished {
            Some(finished) => finished,
            None => finished_of(&mut connection, number).await?,
        };
        Ok(Some(Sealed { partition, epoch, next_offset, finished }))
    }

    /// The effect of a record, if the partition is still this worker's.
    async fn handle(&self, sealed: &Sealed, record: &BorrowedMessage<'_>) -> anyhow::Result<bool> {
        let (partition, offset) = (i64::from(sealed.partition), record.offset());
        let account = String::from_utf8_lossy(record.key().unwrap_or_default()).into_owned();
        let cents: i64 = serde_json::from_slice(record.payload().unwrap_or_default())?;
        let mut tx = self.pool.begin().await?;
        let enter =
            Statement::new(include_str!("../../sql/ledger/mutant_enter.sql")).bind(partition).bind(sealed.epoch);
        if enter.fetch_optional::<Postgres>(&mut tx).await?.is_none() {
            return Ok(false);
        }
        self.part.point(ENTERED);
        let shift = Statement::new(include_str!("../../sql/ledger/move.sql")).bind(&*account).bind(cents);
        shift.execute::<Postgres>(&mut tx).await?;
        let writer = self.part.task.by();
        let note = Statement::new(include_str!("../../sql/ledger/mutant_note.sql")).bind(partition).bind(&*account);
        note.bind(offset).bind(sealed.epoch).bind(&*writer).execute::<Postgres>(&mut tx).await?;
        let finish = Statement::new(include_str!("../../sql/ledger/mutant_finish.sql")).bind(partition).bind(offset);
        finish.execute::<Postgres>(&mut tx).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Makes finished offsets one number.
    async fn fold(&self, sealed: &Sealed, watermark: i64) -> anyhow::Result<()> {
        let partition = i64::from(sealed.partition);
        self.part.point(FOLDING);
        let mut tx = self.pool.begin().await?;
        let fold = if self.mistake == LOST {
            Statement::new(include_str!("../../sql/ledger/mutant_fold_lost.sql")).bind(partition).bind(watermark)
        } else {
            let fold = Statement::new(include_str!("../../sql/ledger/mutant_fold.sql"));
            fold.bind(partition).bind(sealed.epoch).bind(watermark)
        };
        if fold.execute::<Postgres>(&mut tx).await? > 0 {
            let forget = Statement::new(include_str!("../../sql/ledger/mutant_forget.sql")).bind(partition);
            forget.bind(watermark).execute::<Postgres>(&mut tx).await?;
        }
        Ok(tx.commit().await?)
    }
}

async fn finished_of(connection: &mut sqlx::PgConnection, partition: i64) -> Result<HashSet<i64>, sqlx::Error> {
    let finished = Statement::new(include_str!("../../sql/ledger/mutant_finished.sql")).bind(partition);
    finished.fetch_all::<Postgres>(connection).await?.iter().map(|row| row.int(0)).collect()
}
