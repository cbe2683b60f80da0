//! Which id a topic has: asked of the cluster through functions of librdkafka that rdkafka does not wrap.
//!
//! The one place of the published crates with `unsafe` code (see `docs/adr/0020-one-module-of-unsafe-code.md`). What it rests on, in the order of the functions below:
//! everything that librdkafka hands out is owned by an [`Owned`], which gives it back once; what is borrowed from an event is
//! copied before the event goes; the client outlives the call, because it is borrowed for all of it.
#![allow(unsafe_code, reason = "rdkafka 0.39 has no wrapper of DescribeTopics")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::NonNull;
use std::slice;
use std::time::{Duration, Instant};

use rdkafka::bindings::{
    RD_KAFKA_EVENT_DESCRIBETOPICS_RESULT, rd_kafka_AdminOptions_destroy, rd_kafka_AdminOptions_new,
    rd_kafka_AdminOptions_set_broker, rd_kafka_AdminOptions_set_request_timeout, rd_kafka_AdminOptions_t,
    rd_kafka_DescribeTopics, rd_kafka_DescribeTopics_result_topics, rd_kafka_TopicCollection_destroy,
    rd_kafka_TopicCollection_of_topic_names, rd_kafka_TopicCollection_t, rd_kafka_TopicDescription_error,
    rd_kafka_TopicDescription_t, rd_kafka_TopicDescription_topic_id, rd_kafka_Uuid_least_significant_bits,
    rd_kafka_Uuid_most_significant_bits, rd_kafka_admin_op_t, rd_kafka_error_code,
    rd_kafka_event_DescribeTopics_result, rd_kafka_event_destroy, rd_kafka_event_error, rd_kafka_event_t,
    rd_kafka_event_type, rd_kafka_queue_destroy, rd_kafka_queue_new, rd_kafka_queue_poll, rd_kafka_queue_t,
    rd_kafka_resp_err_t,
};
use rdkafka::client::{Client, ClientContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::metadata::MetadataBroker;

use crate::partition::TopicId;

/// What librdkafka may take beyond the time-out of the request until it says so.
const GRACE: Duration = Duration::from_secs(1);

/// Which topic of that name there is; `None`: the cluster has no ids. Blocks its thread, and asks a broker each time.
///
/// # Errors
/// What librdkafka or the broker said, such as that there is no such topic.
pub(crate) fn of_topic<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    timeout: Duration,
) -> KafkaResult<Option<TopicId>> {
    let name = CString::new(topic)?;
    let answer = describe(client, &name, a_broker(client, topic, timeout)?, timeout)?;
    read(&answer)
}

/// One that answers. Otherwise the controller is asked, and librdkafka's mock cluster has none.
fn a_broker<C: ClientContext>(client: &Client<C>, topic: &str, timeout: Duration) -> KafkaResult<i32> {
    let metadata = client.fetch_metadata(Some(topic), timeout)?;
    let answered = Some(metadata.orig_broker_id()).filter(|id| *id >= 0);
    let broker = answered.or_else(|| metadata.brokers().first().map(MetadataBroker::id));
    broker.ok_or(KafkaError::AdminOp(RDKafkaErrorCode::BrokerNotAvailable))
}

/// Sends the request and waits for its answer, which is an event of a queue made for it.
fn describe<C: ClientContext>(
    client: &Client<C>,
    name: &CStr,
    broker: i32,
    timeout: Duration,
) -> KafkaResult<Owned<rd_kafka_event_t>> {
    let handle = client.native_ptr();
    // SAFETY: the handle is that of a client that lives until this function returns. A queue keeps nothing of ours.
    let queue: Owned<rd_kafka_queue_t> = unsafe { Owned::new(rd_kafka_queue_new(handle), rd_kafka_queue_destroy) }?;
    let for_api = rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
    // SAFETY: as above; null, for a request that is not known, is an error of `Owned::new`.
    let options: Owned<rd_kafka_AdminOptions_t> =
        unsafe { Owned::new(rd_kafka_AdminOptions_new(handle, for_api), rd_kafka_AdminOptions_destroy) }?;
    let mut said: [c_char; 256] = [0; 256];
    // SAFETY: the options are alive, and the buffer is as long as is said; on failure a text with its end is written there.
    let set = unsafe {
        let (options, text, room) = (options.get(), said.as_mut_ptr(), said.len());
        [
            rd_kafka_AdminOptions_set_request_timeout(options, millis(timeout), text, room),
            rd_kafka_AdminOptions_set_broker(options, broker, text, room),
        ]
    };
    for result in set {
        succeeded(result)?;
    }
    let mut names = [name.as_ptr()];
    // SAFETY: the array has one name, which ends with a zero and lives until after the call; librdkafka copies it.
    let topics: Owned<rd_kafka_TopicCollection_t> = unsafe {
        Owned::new(
            rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len()),
            rd_kafka_TopicCollection_destroy,
        )
    }?;
    // SAFETY: all four are alive. librdkafka copies names and options, and counts the reference to the queue for as long as the
    // request is under way, also where the answer is not waited for.
    unsafe { rd_kafka_DescribeTopics(handle, topics.get(), options.get(), queue.get()) };
    let deadline = Instant::now() + timeout + GRACE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // SAFETY: the queue is alive and polled by nobody else; the event is ours, and null if the time is over.
        let event = unsafe { Owned::new(rd_kafka_queue_poll(queue.get(), millis(left)), rd_kafka_event_destroy) };
        match event {
            // SAFETY: the event is alive.
            Ok(event) if unsafe { rd_kafka_event_type(event.get()) } == RD_KAFKA_EVENT_DESCRIBETOPICS_RESULT => {
                return Ok(event);
            }
            Err(_) if left.is_zero() => return Err(KafkaError::AdminOp(RDKafkaErrorCode::RequestTimedOut)),
            _ => {}
        }
    }
}

/// Reads the answer about the one topic that was asked for.
fn read(event: &Owned<rd_kafka_event_t>) -> KafkaResult<Option<TopicId>> {
    // SAFETY: the event is alive.
    succeeded(unsafe { rd_kafka_event_error(event.get()) })?;
    let mut count = 0;
    // SAFETY: the event is of the type of this result, so it is not null. The array has `count` pointers, none of them null, and
    // lives as long as the event, which is borrowed until this function returns. An empty one may be null.
    let descriptions: &[*const rd_kafka_TopicDescription_t] = unsafe {
        let result = rd_kafka_event_DescribeTopics_result(event.get());
        let first = rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        if first.is_null() || count == 0 { &[] } else { slice::from_raw_parts(first, count) }
    };
    let Some(&description) = descriptions.first() else {
        return Err(KafkaError::AdminOp(RDKafkaErrorCode::UnknownTopicOrPartition));
    };
    // SAFETY: the description is alive, as the event is; its error may be null, which stands for none.
    let error = unsafe {
        let error = rd_kafka_TopicDescription_error(description);
        if error.is_null() { rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR } else { rd_kafka_error_code(error) }
    };
    succeeded(error)?;
    // SAFETY: as above. The id is a part of the description, and its halves are copied.
    let halves = unsafe {
        let id = rd_kafka_TopicDescription_topic_id(description);
        (!id.is_null()).then(|| (rd_kafka_Uuid_most_significant_bits(id), rd_kafka_Uuid_least_significant_bits(id)))
    };
    Ok(halves.and_then(|(most, least)| {
        TopicId::new((u128::from(most.cast_unsigned()) << 64) | u128::from(least.cast_unsigned()))
    }))
}

fn succeeded(code: rd_kafka_resp_err_t) -> KafkaResult<()> {
    match code {
        rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR => Ok(()),
        code => Err(KafkaError::AdminOp(code.into())),
    }
}

fn millis(duration: Duration) -> c_int {
    c_int::try_from(duration.as_millis()).unwrap_or(c_int::MAX)
}

/// Something of librdkafka's that is given back when it is dropped.
struct Owned<T> {
    at: NonNull<T>,
    give_back: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    /// # Safety
    /// `at` is null, or nobody else gives it back, and `give_back` is how that is done.
    unsafe fn new(at: *mut T, give_back: unsafe extern "C" fn(*mut T)) -> KafkaResult<Self> {
        let at = NonNull::new(at).ok_or_else(|| KafkaError::AdminOpCreation("librdkafka made nothing".to_owned()))?;
        Ok(Self { at, give_back })
    }

    const fn get(&self) -> *mut T {
        self.at.as_ptr()
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: see `new`; it is dropped once.
        unsafe { (self.give_back)(self.at.as_ptr()) };
    }
}
