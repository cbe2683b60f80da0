//! The thread that commits: the client answers a commit only to whoever waits for it, and the polling thread must not.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::TopicPartitionList;

use super::context::Context;

/// Commits one after the other, in their order.
pub(super) struct Committer {
    jobs: Sender<Job>,
    answers: Receiver<(u64, KafkaResult<()>)>,
    /// The number of the commit that was given last.
    last: u64,
}

struct Job {
    number: u64,
    list: TopicPartitionList,
    /// Not to be sent later: the partitions are somebody else's then.
    until: Option<Instant>,
}

impl Committer {
    /// It keeps the consumer only while a commit is on its way.
    pub(super) fn start(consumer: &Arc<BaseConsumer<Context>>) -> std::io::Result<Self> {
        let consumer = Arc::downgrade(consumer);
        let ((jobs, given), (answer, answers)) = (channel(), channel());
        let thread = std::thread::Builder::new().name("leastlock-commit".into());
        thread.spawn(move || run(&consumer, &given, &answer))?;
        Ok(Self { jobs, answers, last: 0 })
    }

    /// Commits, once what was given before is answered.
    pub(super) fn commit(&mut self, list: TopicPartitionList, until: Option<Instant>) {
        self.last += 1;
        // If the thread has ended no answer comes, as if the coordinator gave none.
        let _ = self.jobs.send(Job { number: self.last, list, until });
    }

    /// The answer to the commit that was given last, if it comes within this time.
    pub(super) fn answer(&self, within: Duration) -> Option<KafkaResult<()>> {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.answers.recv_timeout(left) {
                Ok((number, answer)) if number == self.last => return Some(answer),
                // Nobody has waited for it.
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }
}

fn run(consumer: &Weak<BaseConsumer<Context>>, jobs: &Receiver<Job>, answers: &Sender<(u64, KafkaResult<()>)>) {
    while let Ok(Job { number, list, until }) = jobs.recv() {
        let Some(consumer) = consumer.upgrade() else { return };
        let answer = if until.is_some_and(|until| Instant::now() >= until) {
            Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::RequestTimedOut))
        } else {
            consumer.commit(&list, CommitMode::Sync)
        };
        // Before the answer, after which the polling thread may be about to close it.
        drop(consumer);
        if answers.send((number, answer)).is_err() {
            return;
        }
    }
}
