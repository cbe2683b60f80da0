//! The headers of a copy: pure, no I/O.

use crate::on_failure::Cause;
use crate::partition::TopicPartition;
use crate::record::Record;

const TOPIC: &str = "leastlock_original_topic";
const PARTITION: &str = "leastlock_original_partition";
const OFFSET: &str = "leastlock_original_offset";
const TIMESTAMP: &str = "leastlock_original_timestamp_ms";
const GROUP: &str = "leastlock_group";
const CAUSE: &str = "leastlock_cause";
const ERROR: &str = "leastlock_error";
const ATTEMPTS: &str = "leastlock_attempts";

/// Where a copy in a dead-letter or parking topic comes from, and why it is there.
///
/// | header | is |
/// |---|---|
/// | `leastlock_original_topic` | the topic, UTF-8 |
/// | `leastlock_original_partition` | the number of the partition, in decimal |
/// | `leastlock_original_offset` | the offset, in decimal |
/// | `leastlock_original_timestamp_ms` | the timestamp in milliseconds since 1970, UTC, in decimal; null if there was none |
/// | `leastlock_group` | the consumer group |
/// | `leastlock_cause` | `exhausted`, `permanent`, `poison` or `follows`: see [`Cause`] |
/// | `leastlock_error` | what the handler said last, at most 1,000 characters |
/// | `leastlock_attempts` | how often the handler failed, in decimal |
///
/// They are the last headers of the copy, in this order. A record that is copied on from there bears a further set; the last one counts.
///
/// ```
/// use leastlock_partition_worker::Record;
/// use leastlock_partition_worker::dead_letter::Origin;
///
/// // A handler that consumes a dead-letter topic:
/// fn look(record: &Record) {
///     if let Some(origin) = Origin::of(record) {
///         println!("{} at offset {}: {}", origin.source, origin.offset, origin.error);
///     }
/// }
/// # look(&Record::new("stock-moves-dead", 0, 0));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origin {
    /// The partition that it was consumed from.
    pub source: TopicPartition,
    /// Its offset there.
    pub offset: i64,
    /// Its timestamp there, in milliseconds since 1970, UTC.
    pub timestamp_ms: Option<i64>,
    /// The group that consumed it.
    pub group: String,
    /// Why it was copied.
    pub cause: Cause,
    /// What the handler said last.
    pub error: String,
    /// How often the handler failed.
    pub attempts: u32,
}

impl Origin {
    /// What the headers of a copy tell; `None` if the record is not a copy.
    #[must_use]
    pub fn of(record: &Record) -> Option<Self> {
        let text = |name| std::str::from_utf8(record.header(name)?).ok();
        Some(Self {
            source: TopicPartition::new(text(TOPIC)?, text(PARTITION)?.parse().ok()?),
            offset: text(OFFSET)?.parse().ok()?,
            timestamp_ms: text(TIMESTAMP).and_then(|number| number.parse().ok()),
            group: text(GROUP)?.to_owned(),
            cause: Cause::parse(text(CAUSE)?)?,
            error: text(ERROR)?.to_owned(),
            attempts: text(ATTEMPTS)?.parse().ok()?,
        })
    }
}

/// What a copy is to tell, beside the place of the original.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(any(feature = "kafka", test)), allow(dead_code))]
pub(crate) struct Stamp<'a> {
    pub(crate) group: &'a str,
    pub(crate) cause: Cause,
    pub(crate) error: &'a str,
    pub(crate) attempts: u32,
}

#[cfg(any(feature = "kafka", test))]
impl Stamp<'_> {
    /// The headers that a copy bears behind those of the original.
    pub(crate) fn headers(&self, record: &Record) -> [(&'static str, Option<String>); 8] {
        [
            (TOPIC, Some(record.topic().to_owned())),
            (PARTITION, Some(record.partition().to_string())),
            (OFFSET, Some(record.offset().to_string())),
            (TIMESTAMP, record.timestamp_ms().map(|timestamp| timestamp.to_string())),
            (GROUP, Some(self.group.to_owned())),
            (CAUSE, Some(self.cause.as_str().to_owned())),
            (ERROR, Some(self.error.to_owned())),
            (ATTEMPTS, Some(self.attempts.to_string())),
        ]
    }
}

/// The original of a copy, as it was consumed.
#[cfg(any(feature = "kafka", test))]
pub(super) fn original(copy: &Record) -> Option<Record> {
    let origin = Origin::of(copy)?;
    let own = copy.headers().len().checked_sub(8)?;
    let mut record = Record::new(origin.source.topic(), origin.source.partition(), origin.offset);
    if let Some(key) = copy.key() {
        record = record.with_key(key);
    }
    if let Some(value) = copy.value() {
        record = record.with_value(value);
    }
    for (name, value) in &copy.headers()[..own] {
        record = record.with_header(name.clone(), value.clone());
    }
    Some(match origin.timestamp_ms {
        Some(timestamp_ms) => record.with_timestamp_ms(timestamp_ms),
        None => record,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(record: &Record, stamp: &Stamp<'_>) -> Record {
        let mut copy = Record::new("parking", 1, 77).with_timestamp_ms(99);
        if let Some(key) = record.key() {
            copy = copy.with_key(key);
        }
        if let Some(value) = record.value() {
            copy = copy.with_value(value);
        }
        for (name, value) in record.headers() {
            copy = copy.with_header(name.clone(), value.clone());
        }
        for (name, value) in stamp.headers(record) {
            copy = copy.with_header(name, value.map(String::into_bytes));
        }
        copy
    }

    #[test]
    fn an_original_comes_back_as_it_was() {
        let stamp = Stamp { group: "ledger", cause: Cause::Permanent, error: "no such account", attempts: 3 };
        let whole = Record::new("moves", 4, 42)
            .with_key("85123A")
            .with_value("7")
            .with_header("trace", Some(b"1".into()))
            .with_header("trace", Some(b"2".into()))
            .with_header("none", None)
            .with_timestamp_ms(1_700_000_000_000);
        let bare = Record::new("moves", 0, 0);
        for record in [whole, bare] {
            assert_eq!(original(&copied(&record, &stamp)).as_ref(), Some(&record));
            // A copy of a copy comes back as the first copy.
            let copy = copied(&record, &stamp);
            let again = copied(&copy, &Stamp { attempts: 9, ..stamp });
            assert_eq!(original(&again).as_ref(), Some(&copy));
            assert_eq!(Origin::of(&again).map(|origin| (origin.offset, origin.attempts)), Some((77, 9)));
        }
    }

    #[test]
    fn a_record_that_is_no_copy_has_no_origin() {
        assert_eq!(Origin::of(&Record::new("moves", 0, 0)), None);
        let damaged = Record::new("parking", 0, 0).with_header(TOPIC, Some(vec![0xff]));
        assert_eq!(Origin::of(&damaged), None);
    }
}
