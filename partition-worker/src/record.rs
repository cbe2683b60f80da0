//! A record as a handler sees it.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use serde::de::DeserializeOwned;

use crate::partition::TopicPartition;

/// A Kafka record, owned and independent of the Kafka client, so that a handler can be tested without a broker.
///
/// ```
/// use leastlock_partition_worker::Record;
///
/// let record = Record::new("stock-moves", 0, 42).with_key("85123A").with_value(r#"{"units": 3}"#);
/// let moved: serde_json::Value = record.json().unwrap();
/// assert_eq!(moved["units"], 3);
/// assert!(Record::new("stock-moves", 0, 43).json::<i64>().is_err());   // a tombstone has no JSON in it
/// ```
#[derive(Clone)]
pub struct Record {
    source: TopicPartition,
    offset: i64,
    key: Option<Arc<[u8]>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
    timestamp_ms: Option<i64>,
    polled_at: Option<Instant>,
}

impl Record {
    /// A record at this place, without key, value and headers.
    #[must_use]
    pub fn new(topic: impl Into<Arc<str>>, partition: i32, offset: i64) -> Self {
        Self::at(TopicPartition::new(topic, partition), offset)
    }

    pub(crate) const fn at(source: TopicPartition, offset: i64) -> Self {
        Self { source, offset, key: None, value: None, headers: Vec::new(), timestamp_ms: None, polled_at: None }
    }

    /// The same with a key.
    #[must_use]
    pub fn with_key(self, key: impl AsRef<[u8]>) -> Self {
        Self { key: Some(key.as_ref().into()), ..self }
    }

    /// The same with a value.
    #[must_use]
    pub fn with_value(self, value: impl Into<Vec<u8>>) -> Self {
        Self { value: Some(value.into()), ..self }
    }

    /// The same with one more header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: Option<Vec<u8>>) -> Self {
        self.headers.push((name.into(), value));
        self
    }

    /// The same with a timestamp, in milliseconds since 1970, UTC.
    #[must_use]
    pub fn with_timestamp_ms(self, timestamp_ms: i64) -> Self {
        Self { timestamp_ms: Some(timestamp_ms), ..self }
    }

    #[cfg(feature = "kafka")]
    pub(crate) const fn with_polled_at(mut self, now: Instant) -> Self {
        self.polled_at = Some(now);
        self
    }

    /// The partition it came from.
    #[must_use]
    pub const fn source(&self) -> &TopicPartition {
        &self.source
    }

    /// The topic it came from.
    #[must_use]
    pub fn topic(&self) -> &str {
        self.source.topic()
    }

    /// The number of the partition it came from.
    #[must_use]
    pub const fn partition(&self) -> i32 {
        self.source.partition()
    }

    /// Its offset in the partition.
    #[must_use]
    pub const fn offset(&self) -> i64 {
        self.offset
    }

    /// Its key; `None` is Kafka's null key, and an empty key is a key.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    /// Its value; `None` is a tombstone.
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }

    /// Its headers, in order, repeats included.
    #[must_use]
    pub fn headers(&self) -> &[(String, Option<Vec<u8>>)] {
        &self.headers
    }

    /// The value of the last header of this name: of repeats, the last one written counts.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().rev().find(|(header, _)| header == name)?.1.as_deref()
    }

    /// When it was made or appended, as the topic is set up; in milliseconds since 1970, UTC.
    #[must_use]
    pub const fn timestamp_ms(&self) -> Option<i64> {
        self.timestamp_ms
    }

    /// When the worker took it from the Kafka client, which holds records back for as long as the worker's limits are reached.
    /// `None` if it was not made by a worker. It is no part of what makes two records equal.
    #[must_use]
    pub const fn polled_at(&self) -> Option<Instant> {
        self.polled_at
    }

    /// The value, read as JSON.
    ///
    /// # Errors
    /// [`Malformed`], also for a tombstone. Within a handler, `?` makes of it a failure that is not retried: the record
    /// stays as it is.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Malformed> {
        serde_json::from_slice(self.present()?).map_err(|source| self.malformed(Wrong::Json(source)))
    }

    /// The value, read as UTF-8.
    ///
    /// # Errors
    /// [`Malformed`], as for [`json`](Self::json).
    pub fn text(&self) -> Result<&str, Malformed> {
        std::str::from_utf8(self.present()?).map_err(|source| self.malformed(Wrong::Text(source)))
    }

    /// A record at the same place, without what it says.
    #[cfg(feature = "kafka")]
    pub(crate) fn stub(&self) -> Self {
        Self::at(self.source.clone(), self.offset)
    }

    pub(crate) fn shared_key(&self) -> Option<Arc<[u8]>> {
        self.key.clone()
    }

    /// What it takes in memory, near enough for a limit, in bytes.
    #[cfg(feature = "kafka")]
    pub(crate) fn weight(&self) -> usize {
        let headers: usize =
            self.headers.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len)).sum();
        size_of::<Self>() + self.key().map_or(0, <[u8]>::len) + self.value().map_or(0, <[u8]>::len) + headers
    }

    fn present(&self) -> Result<&[u8], Malformed> {
        self.value().ok_or_else(|| self.malformed(Wrong::Tombstone))
    }

    fn malformed(&self, wrong: Wrong) -> Malformed {
        Malformed { source_partition: self.source.clone(), offset: self.offset, wrong }
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Self) -> bool {
        let Self { source, offset, key, value, headers, timestamp_ms, polled_at: _ } = self;
        *source == other.source
            && *offset == other.offset
            && *key == other.key
            && *value == other.value
            && *headers == other.headers
            && *timestamp_ms == other.timestamp_ms
    }
}

impl Eq for Record {}

impl fmt::Debug for Record {
    /// Names the place of the record and the sizes of its parts; keys and payloads do not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("source", &format_args!("{}", self.source))
            .field("offset", &self.offset)
            .field("key_bytes", &self.key().map(<[u8]>::len))
            .field("value_bytes", &self.value().map(<[u8]>::len))
            .field("headers", &self.headers.len())
            .finish_non_exhaustive()
    }
}

/// A value that is not what its reader expects. It names the place of the record, never its content.
#[derive(Debug, thiserror::Error)]
#[error("the value of {source_partition} at offset {offset} {}", .wrong.as_str())]
pub struct Malformed {
    source_partition: TopicPartition,
    offset: i64,
    #[source]
    wrong: Wrong,
}

impl Malformed {
    pub(crate) const fn offset(&self) -> i64 {
        self.offset
    }
}

#[derive(Debug, thiserror::Error)]
enum Wrong {
    #[error("there is no value")]
    Tombstone,
    #[error(transparent)]
    Json(serde_json::Error),
    #[error(transparent)]
    Text(std::str::Utf8Error),
}

impl Wrong {
    const fn as_str(&self) -> &'static str {
        match self {
            Self::Tombstone => "is null",
            Self::Json(_) => "is not the JSON expected",
            Self::Text(_) => "is not UTF-8",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_repeated_headers_the_last_counts() {
        let record = Record::new("t", 0, 0).with_header("h", Some(b"1".into())).with_header("h", Some(b"2".into()));
        assert_eq!(record.header("h"), Some(&b"2"[..]));
        assert_eq!(record.headers().len(), 2);
    }

    #[test]
    fn no_key_and_no_payload_in_debug_and_errors() {
        let record = Record::new("t", 0, 7).with_key("secret-key").with_value("secret-value");
        let shown = format!("{record:?} {}", record.json::<i64>().expect_err("not JSON"));
        assert!(!shown.contains("secret"), "{shown}");
        assert!(shown.contains("t[0] at offset 7"), "{shown}");
    }
}
