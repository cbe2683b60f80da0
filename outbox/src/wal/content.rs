//! How an event is written into a message of the write-ahead log: pure, no I/O.
//!
//! Numbers are big-endian; a length of `0xffffffff` stands for a field that is not there.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version of the encoding: 1 |
//! | 4 | length of the body |
//! | 4 | the first four bytes of SHA-256 over the body |
//! | 16 | body: event id |
//! | 4 | partition; -1 if the event names none |
//! | 4 + n | topic, in UTF-8 |
//! | 4 + n | key, or none |
//! | 4 + n | value, or none (a tombstone) |
//! | 4 + n | headers, a JSON list as the table form keeps them |
//!
//! `leastlock_wal_content` (`sql/postgres/wal/functions.sql`) is the same in SQL.

use sha2::{Digest, Sha256};

use crate::event::{Event, EventId};
use crate::headers::Headers;

const VERSION: u8 = 1;
/// Version, length and checksum.
const HEAD_BYTES: usize = 9;
const NONE: u32 = u32::MAX;

/// What a message says, without its place in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) event_id: EventId,
    pub(crate) topic: String,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Headers,
    pub(crate) partition: Option<i32>,
}

/// Why a message is no event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ContentError {
    #[error("it is empty")]
    Empty,
    #[error("its encoding has version {0}, and this library knows version {VERSION} only")]
    Version(u8),
    #[error("it should have {expected} bytes and has {found}")]
    Length { expected: usize, found: usize },
    #[error("its checksum is wrong")]
    Checksum,
    #[error("its {0} cannot be read")]
    Field(&'static str),
}

/// The content of the message for `event`; `None` if a field takes four gigabytes, which no limit of ours allows.
pub(crate) fn encode(event: &Event) -> Option<Vec<u8>> {
    let headers = event.headers.to_stored();
    let mut content = Vec::with_capacity(HEAD_BYTES + 36 + event.bytes_in_all() + event.topic.len() + headers.len());
    content.extend([0; HEAD_BYTES]);
    content.extend(event.id.as_bytes());
    content.extend(event.partition.unwrap_or(-1).to_be_bytes());
    for field in [Some(event.topic.as_bytes()), event.key.as_deref(), event.value.as_deref(), Some(headers.as_bytes())]
    {
        let length =
            field.map_or(Some(NONE), |bytes| u32::try_from(bytes.len()).ok().filter(|&length| length < NONE))?;
        content.extend(length.to_be_bytes());
        content.extend(field.unwrap_or_default());
    }
    let body = &content[HEAD_BYTES..];
    let (length, sum) = (u32::try_from(body.len()).ok()?.to_be_bytes(), checksum(body));
    content[0] = VERSION;
    content[1..5].copy_from_slice(&length);
    content[5..HEAD_BYTES].copy_from_slice(&sum);
    Some(content)
}

/// Reads what [`encode`] wrote.
pub(crate) fn decode(content: &[u8]) -> Result<Content, ContentError> {
    let (&version, rest) = content.split_first().ok_or(ContentError::Empty)?;
    if version != VERSION {
        return Err(ContentError::Version(version));
    }
    let mut head = Fields(rest);
    let expected = HEAD_BYTES.saturating_add(head.number("length")? as usize);
    let sum: [u8; 4] = head.array("checksum")?;
    let body = head.0;
    if content.len() != expected {
        return Err(ContentError::Length { expected, found: content.len() });
    }
    if sum != checksum(body) {
        return Err(ContentError::Checksum);
    }
    let mut body = Fields(body);
    let event_id = EventId::from_bytes(body.array("event id")?);
    let partition = body.number("partition")?.cast_signed();
    let topic = body.text("topic")?.to_owned();
    let key = body.optional("key")?.map(<[u8]>::to_vec);
    let value = body.optional("value")?.map(<[u8]>::to_vec);
    let headers = Headers::from_stored(body.text("headers")?).map_err(|_| ContentError::Field("headers"))?;
    if !body.0.is_empty() {
        return Err(ContentError::Field("end"));
    }
    Ok(Content { event_id, topic, key, value, headers, partition: (partition != -1).then_some(partition) })
}

fn checksum(body: &[u8]) -> [u8; 4] {
    let digest = Sha256::digest(body);
    [digest[0], digest[1], digest[2], digest[3]]
}

/// What is left to read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, bytes: usize, what: &'static str) -> Result<&'a [u8], ContentError> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(ContentError::Field(what))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ContentError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(ContentError::Field(what))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn number(&mut self, what: &'static str) -> Result<u32, ContentError> {
        self.array(what).map(u32::from_be_bytes)
    }

    fn optional(&mut self, what: &'static str) -> Result<Option<&'a [u8]>, ContentError> {
        match self.number(what)? {
            NONE => Ok(None),
            length => self.take(length as usize, what).map(Some),
        }
    }

    fn text(&mut self, what: &'static str) -> Result<&'a str, ContentError> {
        let bytes = self.optional(what)?.ok_or(ContentError::Field(what))?;
        str::from_utf8(bytes).map_err(|_| ContentError::Field(what))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn any_event()(
            topic in "[a-z.-]{1,20}",
            key in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)),
            value in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..200)),
            headers in proptest::collection::vec(("[a-z]{1,5}", proptest::collection::vec(any::<u8>(), 0..9)), 0..4),
            partition in proptest::option::of(0..i32::MAX),
        ) -> Event {
            let mut event = Event::without_key(topic);
            (event.key, event.value, event.partition) = (key, value, partition);
            for (name, value) in headers {
                event = event.header(name, value);
            }
            event
        }
    }

    fn content_of(event: &Event) -> Content {
        Content {
            event_id: event.id,
            topic: event.topic.clone(),
            key: event.key.clone(),
            value: event.value.clone(),
            headers: event.headers.clone(),
            partition: event.partition,
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(event in any_event()) {
            prop_assert_eq!(decode(&encode(&event).unwrap()), Ok(content_of(&event)));
        }

        #[test]
        fn one_damaged_byte_is_noticed(event in any_event(), at in any::<prop::sample::Index>(), change in 1..=u8::MAX) {
            let mut content = encode(&event).unwrap();
            let at = at.index(content.len());
            content[at] ^= change;
            prop_assert!(decode(&content).is_err());
        }

        #[test]
        fn a_cut_or_a_longer_message_is_noticed(event in any_event(), at in any::<prop::sample::Index>(), more in 1..9_usize) {
            let mut content = encode(&event).unwrap();
            prop_assert!(decode(&content[..at.index(content.len())]).is_err());
            content.extend(vec![0; more]);
            prop_assert!(decode(&content).is_err());
        }

        #[test]
        fn whatever_the_bytes_reading_them_ends(content in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode(&content);
        }

        #[test]
        fn a_body_with_a_right_checksum_and_wrong_fields_is_refused_or_read(body in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut content = vec![VERSION];
            content.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
            content.extend(checksum(&body));
            content.extend(&body);
            // No panic, and nothing is read out of bytes that are not there.
            prop_assert!(decode(&content).is_err() || body.len() >= 36);
        }
    }

    #[test]
    fn the_encoding_is_fixed_for_ever() {
        let id = EventId::parse("01890a5d-ac96-774b-bcce-b302099a8057").unwrap();
        let mut event = Event::new("moves", "85123A").bytes("{}").header("a", "1").partition(3);
        event.id = id;
        let expected = "010000003c\
            995673d8\
            01890a5dac96774bbcceb302099a8057\
            00000003\
            000000056d6f766573\
            00000006383531323341\
            000000027b7d\
            0000000b5b5b2261222c2231225d5d";
        assert_eq!(crate::headers::hex(&encode(&event).unwrap()), expected);
    }

    #[test]
    fn a_later_version_is_named() {
        let mut content = encode(&Event::new("t", "k")).unwrap();
        content[0] = 2;
        assert_eq!(decode(&content), Err(ContentError::Version(2)));
    }
}
