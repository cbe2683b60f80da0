//! What another system is told.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::cloud_event::{CONTENT_TYPE, CloudEvent, ID, SOURCE, SPECVERSION, is_attribute};
use crate::error::Error;
use crate::headers::Headers;
use crate::sink::EVENT_ID_HEADER;
use crate::trace::TraceContext;

/// Kafka's limit of a topic name.
const MAX_TOPIC_CHARS: usize = 249;

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

    #[cfg(feature = "wal")]
    pub(crate) fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    #[cfg(feature = "wal")]
    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// The id of somebody else's event whose own id is no UUID, for the [`Inbox`](crate::Inbox): made from the id and its source, within
    /// which it is unique (the CloudEvent's `source`, say, or the topic). The same two give the same id for ever: a UUID of version 8
    /// from the SHA-256 over the source's length (eight bytes, big-endian), the source and the id.
    #[must_use]
    pub fn of_foreign(source: &str, id: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update((source.len() as u64).to_be_bytes());
        hash.update(source);
        hash.update(id);
        let digest = hash.finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }

    /// The id of a record, by its headers; `header` answers a header's value. `None` if it has none: it came neither from an outbox
    /// nor as a CloudEvent in binary mode.
    ///
    /// A CloudEvent is told by its source *and* its id, so it goes [by both](Self::of_foreign), whatever its id looks like and
    /// whoever sent it: what is answered is not the event's own id, which stands in `ce_id`.
    ///
    /// `None` is also the answer where the id is no UUID. Such a record's repeats cannot be told from new ones: refuse it, or make an id
    /// of what is unique in it with [`of_foreign`](Self::of_foreign).
    pub fn of_record<'r>(header: impl Fn(&str) -> Option<&'r [u8]>) -> Option<Self> {
        if let Some(id) = header(EVENT_ID_HEADER) {
            return Uuid::try_parse_ascii(id).ok().map(Self);
        }
        let text = |name| str::from_utf8(header(name)?).ok();
        Some(Self::of_foreign(text(SOURCE)?, text(ID)?))
    }

    /// When it was made, if it says so.
    fn made_at(&self) -> Option<SystemTime> {
        let (seconds, nanoseconds) = self.0.get_timestamp()?.to_unix();
        SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))
    }

    /// The id in its sixteen bytes.
    #[cfg(feature = "postgres")]
    pub(crate) fn from_slice(bytes: &[u8]) -> Result<Self, uuid::Error> {
        Uuid::from_slice(bytes).map(Self)
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
    pub(crate) is_json: bool,
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
            is_json: false,
        }
    }

    /// Sets the value to JSON. A [`CloudEvent`] then has the content type `application/json`, unless it names another.
    ///
    /// # Errors
    /// When `value` cannot be written as JSON.
    pub fn json<T: Serialize + ?Sized>(mut self, value: &T) -> Result<Self, serde_json::Error> {
        self = self.bytes(serde_json::to_vec(value)?);
        self.is_json = true;
        if self.headers.contains(SPECVERSION) && !self.headers.contains(CONTENT_TYPE) {
            self.headers.push(CONTENT_TYPE.to_owned(), b"application/json".to_vec());
        }
        Ok(self)
    }

    /// Sets the value to bytes.
    pub fn bytes(mut self, value: impl Into<Vec<u8>>) -> Self {
        self.value = Some(value.into());
        self.is_json = false;
        self
    }

    /// Adds a header. Order is kept, and a name may come more than once.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push(name.into(), value.into());
        self
    }

    /// Adds a header without a value (null), which to Kafka is another than one with an empty value.
    pub fn null_header(mut self, name: impl Into<String>) -> Self {
        self.headers.push_null(name.into());
        self
    }

    /// Makes it a CloudEvent in *binary* mode: its attributes are headers, and its id goes out as `ce_id` instead of
    /// `leastlock_event_id`. An event without a key takes the attribute `partitionkey` for its key, if there is one.
    ///
    /// Without a value it is a CloudEvent without data, and a tombstone.
    pub fn cloud_event(mut self, attributes: CloudEvent) -> Self {
        if self.key.is_none() {
            self.key = attributes.key().map(|key| key.as_bytes().to_vec());
        }
        let own = std::mem::replace(&mut self.headers, attributes.into_headers(self.id.made_at(), self.is_json));
        self.headers.extend(own);
        self
    }

    /// Says which trace it belongs to, where that is not the one that the outbox would find
    /// ([`Outbox::trace_context`](crate::Outbox::trace_context)).
    pub fn trace_context(mut self, context: TraceContext) -> Self {
        context.push_to(&mut self.headers);
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

    /// The headers so far.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// What no broker takes is refused when it is appended, not when it is to be sent.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let named = |char: char| char.is_ascii_alphanumeric() || matches!(char, '.' | '_' | '-');
        let topic = &self.topic;
        if topic.is_empty() || topic.len() > MAX_TOPIC_CHARS || !topic.chars().all(named) {
            return Err(Error::Topic { topic: topic.clone() });
        }
        if let Some(partition @ ..0) = self.partition {
            return Err(Error::Partition { partition });
        }
        self.check_headers()
    }

    fn check_headers(&self) -> Result<(), Error> {
        let is_cloud_event = self.headers.contains(SPECVERSION);
        let mut attributes = Vec::new();
        for (name, _) in self.headers.iter() {
            let reason = if name.contains('\0') {
                "its name has a NUL, which clients in C take for its end"
            } else if name == EVENT_ID_HEADER || (is_cloud_event && name == ID) {
                "the event's id goes out under this name"
            } else if is_cloud_event && attributes.contains(&name) {
                "an attribute of a CloudEvent can be there once only"
            } else {
                if is_attribute(name) {
                    attributes.push(name);
                }
                continue;
            };
            return Err(Error::Header { name: name.to_owned(), reason });
        }
        Ok(())
    }

    /// Bytes of key, value and headers: what counts against a broker's limit.
    pub(crate) fn bytes_in_all(&self) -> usize {
        let part = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        part(&self.key) + part(&self.value) + self.headers.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_ids_are_told_apart_by_their_source_and_stay_the_same() {
        let id = EventId::of_foreign("/shop", "17");
        assert_eq!(id, EventId::of_foreign("/shop", "17"));
        assert_eq!(id.to_string(), FOREIGN);
        assert_eq!(EventId::parse(FOREIGN), Ok(id));
        for (source, other) in [("/sho", "p17"), ("/shop1", "7"), ("", "/shop17"), ("/shop", "18")] {
            assert_ne!(id, EventId::of_foreign(source, other));
        }
    }

    #[test]
    fn record_is_told_by_its_id_or_as_a_cloud_event_by_source_and_id() {
        type Headers = [(&'static str, &'static [u8])];
        let of = |headers: &Headers| {
            EventId::of_record(|name| headers.iter().find(|(other, _)| *other == name).map(|(_, value)| *value))
        };
        assert_eq!(of(&[("leastlock_event_id", FOREIGN.as_bytes())]), EventId::parse(FOREIGN).ok());
        assert_eq!(of(&[("ce_id", b"17"), ("ce_source", b"/shop")]), EventId::parse(FOREIGN).ok());
        assert_ne!(of(&[("ce_id", b"17"), ("ce_source", b"/mine")]), EventId::parse(FOREIGN).ok());
        let without: [&Headers; 4] =
            [&[], &[("leastlock_event_id", b"17")], &[("ce_id", b"17")], &[("ce_id", b"\xff"), ("ce_source", b"s")]];
        for none in without {
            assert_eq!(of(none), None);
        }
    }

    /// Fixed for ever: computed once with another implementation of SHA-256.
    const FOREIGN: &str = "64b02b14-6d35-89c6-ab6f-5c5cc440af36";
}
