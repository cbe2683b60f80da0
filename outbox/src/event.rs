//! What another system is told.

use std::fmt;

use serde::Serialize;
use uuid::Uuid;

use crate::headers::Headers;

/// An event's id: a UUID of version 7 (RFC 9562), made when the event is made. It goes out as a header and stays the same
/// on every repeat, so that a consumer can tell a repeat from a new event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId(Uuid);

impl EventId {
    /// A new id.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "two calls differ, so there is no default")]
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// Reads an id as it stands in the header.
    ///
    /// # Errors
    /// When `text` is not a UUID.
    pub fn parse(text: &str) -> Result<Self, uuid::Error> {
        Uuid::parse_str(text).map(Self)
    }

    /// The id as it stands in the header, in memory of the caller's.
    #[cfg(feature = "kafka")]
    pub(crate) fn write_to<'b>(&self, buffer: &'b mut [u8; 36]) -> &'b str {
        self.0.hyphenated().encode_lower(buffer)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// An event to append: a topic, a key, a value and headers, as Kafka has them.
///
/// Events of one (topic, key) leave in the order of their commits. Without a key there is no order.
///
/// ```
/// use leastlock_outbox::Event;
///
/// let event = Event::new("stock-moves", "85123A").json(&serde_json::json!({"units": -3}))?.header("source", "shop");
/// assert_eq!(event.value(), Some(&br#"{"units":-3}"#[..]));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an event leaves only when it is appended"]
pub struct Event {
    pub(crate) id: EventId,
    pub(crate) topic: String,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Headers,
    pub(crate) partition: Option<i32>,
}

impl Event {
    /// An event of a key. Its value is null (a tombstone) until [`json`](Self::json) or [`bytes`](Self::bytes) gives one.
    pub fn new(topic: impl Into<String>, key: impl Into<Vec<u8>>) -> Self {
        Self { key: Some(key.into()), ..Self::without_key(topic) }
    }

    /// An event without a key: it may land on any partition and has no order among others.
    pub fn without_key(topic: impl Into<String>) -> Self {
        Self {
            id: EventId::new(),
            topic: topic.into(),
            key: None,
            value: None,
            headers: Headers::default(),
            partition: None,
        }
    }

    /// Sets the value to JSON.
    ///
    /// # Errors
    /// When `value` cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Result<Self, serde_json::Error> {
        Ok(self.bytes(serde_json::to_vec(value)?))
    }

    /// Sets the value to bytes.
    pub fn bytes(mut self, value: impl Into<Vec<u8>>) -> Self {
        self.value = Some(value.into());
        self
    }

    /// Adds a header. Order is kept, and a name may come more than once.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push(name.into(), value.into());
        self
    }

    /// Names the partition instead of leaving it to the key's hash. `append` refuses one below zero.
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// The event's id.
    #[must_use]
    pub fn id(&self) -> EventId {
        self.id
    }

    /// The value; `None` is a tombstone.
    #[must_use]
    pub fn value(&self) -> Option<&[u8]> {
        self.value.as_deref()
    }

    /// Bytes of key, value and headers: what counts against a broker's limit.
    pub(crate) fn bytes_in_all(&self) -> usize {
        let part = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        part(&self.key) + part(&self.value) + self.headers.bytes()
    }
}
