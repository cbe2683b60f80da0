//! Polling alone, and a loop as one writes it by hand: a thread that polls, and tasks that each have their share of the keys.
//! Neither commits anything, survives a rebalance or bounds what a slow key holds up.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::tally::Tally;
use super::task::{Measured, Task};

const POLL: Duration = Duration::from_millis(20);
/// Records that wait for a task.
const WAITING: usize = 64;

/// A record that was dealt out.
#[derive(Debug)]
pub(super) struct Dealt {
    pub(super) key: Vec<u8>,
    /// Copied as a handler would need it.
    _value: Vec<u8>,
    polled: Instant,
}

/// What a task does with its records.
pub(super) trait Hand: Send + 'static {
    fn take(&mut self, record: &Dealt) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// Polls, and counts.
pub(super) async fn poll(task: &Task, tally: Arc<Tally>, time: Duration) -> anyhow::Result<Measured> {
    let consumer = consumer(task)?;
    let stop = Stop::default();
    let (stopped, theirs) = (Arc::clone(&stop.0), Arc::clone(&tally));
    let polling = tokio::task::spawn_blocking(move || {
        while !stopped.load(Relaxed) {
            if let Some(Ok(message)) = consumer.poll(POLL) {
                theirs.came();
                std::hint::black_box((message.key(), message.payload(), message.offset()));
                theirs.done_many(1);
            }
        }
    });
    let measured = tally.measured(time).await;
    drop(stop);
    polling.await?;
    measured
}

/// Deals records out to tasks, until all are done or the time is over.
pub(super) async fn deal<H: Hand>(
    task: &Task,
    hands: Vec<H>,
    tally: Arc<Tally>,
    time: Duration,
) -> anyhow::Result<Measured> {
    let consumer = consumer(task)?;
    let stop = Stop::default();
    let mut tasks = JoinSet::new();
    let queues: Vec<_> = hands.into_iter().map(|hand| start(&mut tasks, hand, Arc::clone(&tally))).collect();
    let (stopped, theirs) = (Arc::clone(&stop.0), Arc::clone(&tally));
    let polling = tokio::task::spawn_blocking(move || {
        while !stopped.load(Relaxed) {
            let Some(Ok(message)) = consumer.poll(POLL) else { continue };
            theirs.came();
            let key = message.key().unwrap_or_default().to_vec();
            let queue = &queues[task_of(&key, queues.len())];
            let dealt = Dealt { key, _value: message.payload().unwrap_or_default().to_vec(), polled: Instant::now() };
            if queue.blocking_send(dealt).is_err() {
                return;
            }
        }
    });
    let measured = tokio::select! {
        measured = tally.measured(time) => measured,
        Some(ended) = tasks.join_next() => anyhow::bail!("a task ended early: {ended:?}"),
    };
    drop(stop);
    tasks.shutdown().await;
    polling.await?;
    measured
}

fn start<H: Hand>(tasks: &mut JoinSet<anyhow::Result<()>>, mut hand: H, tally: Arc<Tally>) -> mpsc::Sender<Dealt> {
    let (queue, mut records) = mpsc::channel::<Dealt>(WAITING);
    tasks.spawn(async move {
        while let Some(record) = records.recv().await {
            hand.take(&record).await?;
            tally.done(Some(record.polled));
        }
        Ok(())
    });
    queue
}

fn task_of(key: &[u8], tasks: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    usize::try_from(hasher.finish() % tasks as u64).unwrap_or(0)
}

/// All partitions, from their beginning.
fn consumer(task: &Task) -> anyhow::Result<BaseConsumer> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &task.brokers).set("group.id", &task.group).set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.set("log_level", "3").create()?;
    let mut list = TopicPartitionList::new();
    for partition in 0..task.partitions {
        list.add_partition_offset(&task.topic, partition, Offset::Beginning)?;
    }
    consumer.assign(&list)?;
    Ok(consumer)
}

/// Ends a polling thread, however the measurement ends.
#[derive(Default)]
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}
