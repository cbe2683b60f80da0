//! What relays measure (feature `metrics`): the names, with their units.
//!
//! Figures go to whatever recorder the application has installed for the crate `metrics`; without one they go nowhere. Install
//! it before the first relay runs, and call [`describe`] once after that, for the exporters that show what a metric means.
//!
//! There are no labels: no topic, key, payload or owner is ever in a metric. Counters and the histogram
//! take all relays of a process together; a gauge is what the relay that wrote it last says, so read gauges where a process has one
//! relay, or use [`Stats::shards`](crate::Stats::shards) and [`Lag`] for each.
//!
//! | metric | kind | unit |
//! |---|---|---|
//! | [`OUTBOX_PUBLISHED_TOTAL`] | counter | events |
//! | [`OUTBOX_DELETED_TOTAL`] | counter | events |
//! | [`OUTBOX_PUBLISH_SECONDS`] | histogram | seconds |
//! | [`OUTBOX_SHARDS_HELD`] | gauge | shards |
//! | [`OUTBOX_SHARDS_HANDED_OVER_TOTAL`] | counter | shards |
//! | [`OUTBOX_BACKLOG_EVENTS`] | gauge | events |
//! | [`OUTBOX_OLDEST_UNPUBLISHED_SECONDS`] | gauge | seconds |
//! | [`OUTBOX_OLDEST_OPEN_WRITER_SECONDS`] | gauge | seconds |
//! | [`OUTBOX_OLDEST_PARKED_SECONDS`] | gauge | seconds |
//! | [`OUTBOX_PARKED_EVENTS`] | gauge | events |
//!
//! The last five are of the whole outbox, as [`Lag`] has them; each relay reads them every ten seconds. A rising
//! [`OUTBOX_OLDEST_UNPUBLISHED_SECONDS`] is the one to be woken by.

use std::time::Duration;

use ::metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use crate::lag::Lag;

/// Events acknowledged by the sink and noted as published. A repeat after a crash counts again.
pub const OUTBOX_PUBLISHED_TOTAL: &str = "outbox_published_total";

/// Events deleted from the log because their retention was over.
pub const OUTBOX_DELETED_TOTAL: &str = "outbox_deleted_total";

/// Seconds from an event's append to its acknowledgement: of events acknowledged together, the longest.
pub const OUTBOX_PUBLISH_SECONDS: &str = "outbox_publish_seconds";

/// Shards that the relay holds.
pub const OUTBOX_SHARDS_HELD: &str = "outbox_shards_held";

/// Shards that the relay has handed over to another one.
pub const OUTBOX_SHARDS_HANDED_OVER_TOTAL: &str = "outbox_shards_handed_over_total";

/// Committed events that are not noted as published; an estimate where they are many.
pub const OUTBOX_BACKLOG_EVENTS: &str = "outbox_backlog_events";

/// The age of the oldest committed event that is not noted as published; 0 if there is none.
pub const OUTBOX_OLDEST_UNPUBLISHED_SECONDS: &str = "outbox_oldest_unpublished_seconds";

/// The age of the oldest open transaction that has appended; 0 if there is none, or the engine does not show it.
pub const OUTBOX_OLDEST_OPEN_WRITER_SECONDS: &str = "outbox_oldest_open_writer_seconds";

/// How long the event that was parked first has been so; 0 if there is none.
pub const OUTBOX_OLDEST_PARKED_SECONDS: &str = "outbox_oldest_parked_seconds";

/// Events that are parked.
pub const OUTBOX_PARKED_EVENTS: &str = "outbox_parked_events";

/// Tells the recorder what each metric means, and its unit.
pub fn describe() {
    describe_counter!(OUTBOX_PUBLISHED_TOTAL, Unit::Count, "events noted as published");
    describe_counter!(OUTBOX_DELETED_TOTAL, Unit::Count, "events deleted after their retention");
    describe_histogram!(OUTBOX_PUBLISH_SECONDS, Unit::Seconds, "from append to acknowledgement");
    describe_gauge!(OUTBOX_SHARDS_HELD, Unit::Count, "shards that the relay holds");
    describe_counter!(OUTBOX_SHARDS_HANDED_OVER_TOTAL, Unit::Count, "shards handed over to another relay");
    describe_gauge!(OUTBOX_BACKLOG_EVENTS, Unit::Count, "committed events not noted as published");
    describe_gauge!(OUTBOX_OLDEST_UNPUBLISHED_SECONDS, Unit::Seconds, "age of the oldest event not noted as published");
    describe_gauge!(
        OUTBOX_OLDEST_OPEN_WRITER_SECONDS,
        Unit::Seconds,
        "age of the oldest open transaction that has appended"
    );
    describe_gauge!(OUTBOX_OLDEST_PARKED_SECONDS, Unit::Seconds, "since when the oldest parked event is parked");
    describe_gauge!(OUTBOX_PARKED_EVENTS, Unit::Count, "events that are parked");
}

pub(crate) fn published(events: u64) {
    counter!(OUTBOX_PUBLISHED_TOTAL).increment(events);
}

pub(crate) fn deleted(events: u64) {
    counter!(OUTBOX_DELETED_TOTAL).increment(events);
}

pub(crate) fn acknowledged(longest: Duration) {
    histogram!(OUTBOX_PUBLISH_SECONDS).record(longest);
}

#[allow(clippy::cast_precision_loss, reason = "they are few")]
pub(crate) fn shards(held: usize, handed_over: usize) {
    gauge!(OUTBOX_SHARDS_HELD).set(held as f64);
    counter!(OUTBOX_SHARDS_HANDED_OVER_TOTAL).increment(handed_over as u64);
}

#[allow(clippy::cast_precision_loss, reason = "a gauge needs no more than a float has")]
pub(crate) fn lag(lag: &Lag) {
    let seconds = |age: Option<Duration>| age.unwrap_or_default().as_secs_f64();
    gauge!(OUTBOX_BACKLOG_EVENTS).set(lag.backlog as f64);
    gauge!(OUTBOX_OLDEST_UNPUBLISHED_SECONDS).set(seconds(lag.unpublished));
    gauge!(OUTBOX_OLDEST_OPEN_WRITER_SECONDS).set(seconds(lag.open_writer));
    gauge!(OUTBOX_OLDEST_PARKED_SECONDS).set(seconds(lag.parked));
    gauge!(OUTBOX_PARKED_EVENTS).set(lag.parked_events as f64);
}
