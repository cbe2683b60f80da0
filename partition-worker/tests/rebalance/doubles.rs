//! Consumers that make the classic mistakes, put to the tests of the worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use leastlock_partition_worker::{Process, Record};
use leastlock_testkit::broker::Broker;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientConfig, ClientContext, Message};
use tokio::runtime::Handle;

use crate::closing::closes;
use crate::group::{Hold, KEYS, Protocol, watched};
use crate::moves::{Gates, goes_on_after_a_loss, goes_on_after_refused_commits};
use crate::rig::{LIMIT, Log, Rig};
use crate::stalls::{MAX_POLL, share, two_partitions};

const POLL: Duration = Duration::from_millis(20);

/// How often a consumer was given partitions, and how often it lost some.
#[derive(Default)]
struct Counts {
    given: AtomicUsize,
    lost: AtomicUsize,
}

struct Counted(Arc<Counts>);

impl ClientContext for Counted {}

impl ConsumerContext for Counted {
    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        match rebalance {
            Rebalance::Assign(_) => self.0.given.fetch_add(1, Ordering::SeqCst),
            Rebalance::Revoke(_) | Rebalance::Error(_) => self.0.lost.fetch_add(1, Ordering::SeqCst),
        };
    }
}

/// A consumer with one thread.
struct Naive {
    thread: JoinHandle<KafkaResult<()>>,
    counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
}

impl Naive {
    /// Does `handle` with what each poll gives, until that fails or it is stopped.
    fn start(
        rig: &Rig,
        mut handle: impl FnMut(&BaseConsumer<Counted>, Option<BorrowedMessage<'_>>) -> KafkaResult<()> + Send + 'static,
    ) -> Self {
        let (counts, stop) = (Arc::<Counts>::default(), Arc::<AtomicBool>::default());
        let context = Counted(Arc::clone(&counts));
        let consumer = BaseConsumer::from_config_and_context(&config(rig), context).expect("a consumer");
        consumer.subscribe(&[&rig.topic]).expect("a subscription");
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::SeqCst) {
                let polled = consumer.poll(POLL).transpose()?;
                handle(&consumer, polled)?;
            }
            Ok(())
        });
        Self { thread, counts, stop }
    }

    fn ended(self) -> KafkaResult<()> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("no panic")
    }
}

fn config(rig: &Rig) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", rig.broker.bootstrap()).set("group.id", &rig.group);
    config.set("enable.auto.commit", "false").set("auto.offset.reset", "earliest");
    for (name, value) in &rig.settings {
        config.set(*name, value);
    }
    config
}

fn record(message: &BorrowedMessage<'_>) -> Record {
    let record = Record::new(message.topic(), message.partition(), message.offset());
    let record = record.with_key(message.key().unwrap_or_default());
    record.with_value(message.payload().unwrap_or_default())
}

/// It pauses what it has too much of, and forgets that it did when the partition is lost; the client does not.
pub(crate) async fn p8_double_a_consumer_that_does_not_resume_stays_paused(broker: Broker, protocol: Protocol) {
    let rig = protocol.rig(broker, 1).await;
    let (log, gates, runtime) = (Log::default(), Gates::new(1), Handle::current());
    let full: Arc<AtomicBool> = Arc::default();
    let (handler, opened, fills) = (log.plain(), gates.clone(), Arc::clone(&full));
    let (mut held, mut is_paused, mut lost) = (Vec::new(), false, 0);
    let consumer = Naive::start(&rig, move |consumer, polled| {
        let losses = consumer.context().0.lost.load(Ordering::SeqCst);
        if std::mem::replace(&mut lost, losses) != losses {
            (held, is_paused) = (Vec::new(), false);
        }
        held.extend(polled.as_ref().map(record));
        if opened.is_open() {
            for record in held.drain(..) {
                runtime.block_on(handler.process(&record)).expect("it is processed");
            }
            if std::mem::take(&mut is_paused) {
                consumer.resume(&consumer.assignment()?)?;
            }
        } else if held.len() >= 4 && !is_paused {
            consumer.pause(&consumer.assignment()?)?;
            is_paused = true;
            fills.store(true, Ordering::SeqCst);
        }
        Ok(())
    });
    let is_full = async || full.load(Ordering::SeqCst);
    let counts = Arc::clone(&consumer.counts);
    let has_lost = async || counts.lost.load(Ordering::SeqCst) > 0;
    assert!(!goes_on_after_a_loss(&rig, protocol, (&log, &gates), is_full, has_lost).await, "it is still paused");
    assert!(counts.given.load(Ordering::SeqCst) > 1, "it was given the partition again");
    consumer.ended().expect("nothing else is wrong with it");
}

/// While it handles it does not poll.
pub(crate) async fn p11_double_a_consumer_that_handles_where_it_polls_is_thrown_out(
    broker: Broker,
    protocol: Protocol,
) {
    let mut rig = protocol.rig(broker, 2).await;
    rig.settings.push(("max.poll.interval.ms", MAX_POLL.as_millis().to_string()));
    two_partitions(&mut rig).await;
    let (hold, log, runtime) = (Hold::default(), Log::default(), Handle::current());
    let handler = hold.handler(&log, &KEYS[..1]);
    let consumer = Naive::start(&rig, move |_, polled| {
        if let Some(message) = polled {
            runtime.block_on(handler.process(&record(&message))).expect("it is processed");
        }
        Ok(())
    });
    hold.until_entered(1).await;
    // So it has run for longer than the time in which the client wants to be polled.
    tokio::time::sleep(MAX_POLL + Duration::from_secs(1)).await;
    let other = watched(rig.builder(), Log::default().plain());
    assert_eq!(share(&other).await, 2, "nothing is left to the first one");
    hold.let_go();
    let thrown_out = tokio::task::spawn_blocking(|| consumer.thread.join().expect("no panic"));
    let error = tokio::time::timeout(LIMIT, thrown_out).await.expect("in time").expect("no panic");
    assert_eq!(error, Err(KafkaError::MessageConsumption(RDKafkaErrorCode::PollExceeded)));
    other.stop().await;
}

/// It takes an error of a commit for its end.
pub(crate) async fn p14_double_a_consumer_that_ends_with_a_failed_commit_ends(broker: Broker, protocol: Protocol) {
    let rig = protocol.rig(broker, 1).await;
    let (log, runtime) = (Log::default(), Handle::current());
    let handler = log.plain();
    let start = || {
        Naive::start(&rig, move |consumer, polled| {
            let Some(message) = polled else { return Ok(()) };
            runtime.block_on(handler.process(&record(&message))).expect("it is processed");
            consumer.commit_message(&message, CommitMode::Sync)
        })
    };
    let has_ended = |consumer: &Naive| consumer.thread.is_finished();
    let (goes_on, consumer) = goes_on_after_refused_commits(&rig, &log, start, has_ended).await;
    assert!(!goes_on);
    assert_eq!(consumer.ended(), Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::RebalanceInProgress)));
}

/// Puts the answer to a revocation off until after the poll; while closing there is no after.
struct PutsOff {
    given: AtomicUsize,
}

impl ClientContext for PutsOff {}

impl ConsumerContext for PutsOff {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, event: RDKafkaRespErr, list: &mut TopicPartitionList) {
        if event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            consumer.assign(list).expect("an assignment");
            self.given.fetch_add(1, Ordering::SeqCst);
        }
    }
}

pub(crate) async fn p18_double_a_consumer_that_puts_its_answer_off_while_closing_hangs(
    broker: Broker,
    protocol: Protocol,
) {
    let rig = protocol.rig(broker, 1).await;
    let context = PutsOff { given: AtomicUsize::new(0) };
    let consumer = BaseConsumer::from_config_and_context(&config(&rig), context).expect("a consumer");
    consumer.subscribe(&[&rig.topic]).expect("a subscription");
    let member = async || {
        let _ = consumer.poll(POLL);
        consumer.context().given.load(Ordering::SeqCst) > 0
    };
    leastlock_testkit::until("membership", LIMIT, member).await;
    let closed: Arc<AtomicBool> = Arc::default();
    let says = Arc::clone(&closed);
    // Of a thread that is never joined the end of the process takes care.
    let close = move || {
        std::thread::spawn(move || {
            drop(consumer);
            says.store(true, Ordering::SeqCst);
        });
    };
    assert!(!closes(close, || closed.load(Ordering::SeqCst)).await, "it waits for an answer that nobody gives");
}
