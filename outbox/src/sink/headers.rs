//! The headers that an event goes out to Kafka with.

use std::iter::once;

use rdkafka::message::{Header, OwnedHeaders};

use super::{EVENT_ID_HEADER, LoggedEvent};
use crate::cloud_event::{ID, SPECVERSION};

/// The event id first, then the event's own headers in their order; a header without a value goes out as null.
///
/// The id goes out once. A CloudEvent has an attribute for it, so there it is `ce_id`. What makes an event one is the
/// attribute that every CloudEvent has, so that events which plain SQL wrote are told apart as well.
pub(crate) fn kafka_headers(event: &LoggedEvent) -> OwnedHeaders {
    let mut buffer = [0; 36];
    let id = event.event_id.write_to(&mut buffer).as_bytes();
    let headers = OwnedHeaders::new_with_capacity(1 + event.headers.len());
    let own = event.headers.iter();
    once((id_header(event), Some(id)))
        .chain(own)
        .fold(headers, |headers, (key, value)| headers.insert(Header { key, value }))
}

/// The name under which the event's id goes out.
pub(crate) fn id_header(event: &LoggedEvent) -> &'static str {
    if event.headers.contains(SPECVERSION) { ID } else { EVENT_ID_HEADER }
}

#[cfg(test)]
mod tests {
    use rdkafka::message::Headers as _;

    use super::*;
    use crate::event::EventId;
    use crate::headers::Headers;

    fn sent(headers: &str) -> Vec<(String, Option<Vec<u8>>)> {
        let event = LoggedEvent {
            shard: 0,
            id: 1,
            event_id: EventId::parse("01890a5d-ac96-774b-bcce-b302099a8057").unwrap(),
            topic: "t".into(),
            key: None,
            value: None,
            headers: Headers::from_stored(headers).unwrap(),
            partition: None,
            age_ms: 0,
            unreadable: None,
        };
        let sent = kafka_headers(&event);
        sent.iter().map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect()
    }

    fn header(name: &str, value: Option<&str>) -> (String, Option<Vec<u8>>) {
        (name.to_owned(), value.map(|value| value.as_bytes().to_vec()))
    }

    #[test]
    fn id_goes_first_and_once() {
        let id = Some("01890a5d-ac96-774b-bcce-b302099a8057");
        let plain = sent(r#"[["a","1"],["ce_id","mine"],["a",null],["a",""]]"#);
        let a = |value| header("a", value);
        assert_eq!(
            plain,
            [header(EVENT_ID_HEADER, id), a(Some("1")), header("ce_id", Some("mine")), a(None), a(Some(""))]
        );
        let cloud_event = sent(r#"[["ce_specversion","1.0"],["ce_type","t"]]"#);
        assert_eq!(
            cloud_event,
            [header("ce_id", id), header("ce_specversion", Some("1.0")), header("ce_type", Some("t"))]
        );
    }
}
