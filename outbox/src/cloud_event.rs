//! Events as CloudEvents.
//!
//! CloudEvents 1.0.2 names what an event says about itself; its Kafka protocol binding 1.0.2 says, for the *binary* content mode, where
//! that stands in a record: attributes are headers with the prefix `ce_`, `datacontenttype` is the header `content-type`, and the value
//! is the data as it is. An event without data is a tombstone.

use std::time::SystemTime;

use crate::headers::Headers;

mod attribute;

use attribute::{is_media_type, is_text, is_uri, is_uri_reference, timestamp};

pub(crate) const SPECVERSION: &str = "ce_specversion";
pub(crate) const ID: &str = "ce_id";
pub(crate) const SOURCE: &str = "ce_source";
const TIME: &str = "ce_time";
pub(crate) const CONTENT_TYPE: &str = "content-type";
const PREFIX: &str = "ce_";
const PARTITION_KEY: &str = "partitionkey";

/// Attributes that the specification itself defines, and `data`, which is none.
const RESERVED: [&str; 9] =
    ["id", "source", "specversion", "type", "datacontenttype", "dataschema", "subject", "time", "data"];

/// The limit that the specification advises for a name.
const MAX_NAME_CHARS: usize = 20;

/// The attributes of a CloudEvent, to be given to [`Event::cloud_event`](crate::Event::cloud_event).
///
/// `id` is the event's id and `specversion` is `1.0`; `time` is when the event was made, unless it is set. `datacontenttype` is
/// `application/json` if the value was set by [`Event::json`](crate::Event::json), unless it is set.
///
/// ```
/// use leastlock_outbox::{CloudEvent, Event};
///
/// let placed = CloudEvent::new("com.example.shop.order-placed", "/shop")?.subject("order/17")?.extension("tenant", "7")?;
/// let event = Event::new("orders", "17").json(&serde_json::json!({"units": 3}))?.cloud_event(placed);
/// assert_eq!(event.headers().last("ce_type"), Some(&b"com.example.shop.order-placed"[..]));
/// assert_eq!(event.headers().last("content-type"), Some(&b"application/json"[..]));
/// assert!(CloudEvent::new("", "/shop").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudEvent {
    /// Type and source, then the others in the order in which they were set; names without the prefix.
    attributes: Vec<(String, String)>,
    content_type: Option<String>,
}

impl CloudEvent {
    /// A CloudEvent of a type (`com.example.shop.order-placed`: best with a reverse DNS name in front) from a source (a URI
    /// reference, best an absolute URI).
    ///
    /// # Errors
    /// When the type is empty or has a character that the specification forbids, or the source is no URI reference.
    pub fn new(event_type: impl Into<String>, source: impl Into<String>) -> Result<Self, CloudEventError> {
        let (event_type, source) = (event_type.into(), source.into());
        check("type", &event_type, is_text, "text of at least one character, without control characters")?;
        check("source", &source, is_uri_reference, "a URI reference (RFC 3986)")?;
        let attributes = vec![("type".to_owned(), event_type), ("source".to_owned(), source)];
        Ok(Self { attributes, content_type: None })
    }

    /// Whom the event is about, among what its source tells of.
    ///
    /// # Errors
    /// When it is empty or has a character that the specification forbids.
    pub fn subject(self, subject: impl Into<String>) -> Result<Self, CloudEventError> {
        let subject = subject.into();
        check("subject", &subject, is_text, "text of at least one character, without control characters")?;
        Ok(self.with("subject", subject))
    }

    /// When it happened, if not when the event was made. Sent to the millisecond.
    ///
    /// # Errors
    /// When it is before 1970 or after 9999, which RFC 3339 cannot say or nobody means.
    pub fn time(self, time: SystemTime) -> Result<Self, CloudEventError> {
        let must_be = "between the years 1970 and 9999";
        let time = timestamp(time).ok_or(CloudEventError::Value { attribute: "time".to_owned(), must_be })?;
        Ok(self.with("time", time))
    }

    /// The media type of the value (`datacontenttype`).
    ///
    /// # Errors
    /// When it is no media type, or one of CloudEvents' own: a consumer would take the record for one in *structured* mode.
    pub fn content_type(mut self, content_type: impl Into<String>) -> Result<Self, CloudEventError> {
        let content_type = content_type.into();
        let must_be = "a media type (RFC 2046) other than application/cloudevents…";
        check("datacontenttype", &content_type, is_media_type, must_be)?;
        self.content_type = Some(content_type);
        Ok(self)
    }

    /// The schema of the value.
    ///
    /// # Errors
    /// When it is no absolute URI.
    pub fn data_schema(self, schema: impl Into<String>) -> Result<Self, CloudEventError> {
        let schema = schema.into();
        check("dataschema", &schema, is_uri, "an absolute URI (RFC 3986)")?;
        Ok(self.with("dataschema", schema))
    }

    /// An attribute of an extension. Its name is 1 to 20 lower-case letters and digits of ASCII; the value is the string encoding of the
    /// attribute's type.
    ///
    /// # Errors
    /// When the name is another or one of the specification's own, or the value is empty or has a character that the specification
    /// forbids.
    pub fn extension(self, name: &str, value: impl Into<String>) -> Result<Self, CloudEventError> {
        let named = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if name.is_empty() || name.len() > MAX_NAME_CHARS || !name.bytes().all(named) || RESERVED.contains(&name) {
            return Err(CloudEventError::Name { name: name.to_owned() });
        }
        let value = value.into();
        check(name, &value, is_text, "text of at least one character, without control characters")?;
        Ok(self.with(name, value))
    }

    /// The attribute of the partitioning extension. It always goes out as an attribute; an event *without a key* also takes it for
    /// its key. An event's own key is never changed by it, nor is the attribute ever made from a key.
    ///
    /// # Errors
    /// When it is empty or has a character that the specification forbids.
    pub fn partition_key(self, key: impl Into<String>) -> Result<Self, CloudEventError> {
        self.extension(PARTITION_KEY, key)
    }

    /// The key that an event without one takes.
    pub(crate) fn key(&self) -> Option<&str> {
        self.attributes.iter().find(|(name, _)| name == PARTITION_KEY).map(|(_, value)| value.as_str())
    }

    /// The headers of binary mode, but for the id, which is not stored twice.
    pub(crate) fn into_headers(self, made_at: Option<SystemTime>, is_json: bool) -> Headers {
        let mut headers = Headers::default();
        let mut push = |name: String, value: String| headers.push(name, value.into_bytes());
        push(SPECVERSION.to_owned(), "1.0".to_owned());
        let has_time = self.attributes.iter().any(|(name, _)| name == "time");
        for (name, value) in self.attributes {
            push(format!("{PREFIX}{name}"), value);
        }
        if let Some(made_at) = made_at.filter(|_| !has_time).and_then(timestamp) {
            push(TIME.to_owned(), made_at);
        }
        let json = is_json.then(|| "application/json".to_owned());
        if let Some(content_type) = self.content_type.or(json) {
            push(CONTENT_TYPE.to_owned(), content_type);
        }
        headers
    }

    /// Sets an attribute, in the place of one that was set before: names are unique.
    fn with(mut self, name: &str, value: String) -> Self {
        match self.attributes.iter_mut().find(|(other, _)| other == name) {
            Some((_, old)) => *old = value,
            None => self.attributes.push((name.to_owned(), value)),
        }
        self
    }
}

/// Whether a header belongs to a CloudEvent, where it may stand once only.
pub(crate) fn is_attribute(name: &str) -> bool {
    name.starts_with(PREFIX) || name == CONTENT_TYPE
}

fn check(
    attribute: &str,
    value: &str,
    is_right: impl Fn(&str) -> bool,
    must_be: &'static str,
) -> Result<(), CloudEventError> {
    if is_right(value) {
        return Ok(());
    }
    Err(CloudEventError::Value { attribute: attribute.to_owned(), must_be })
}

/// Why something is no CloudEvent. It names the attribute and never its value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloudEventError {
    /// A value that the specification does not allow.
    #[error("the attribute {attribute} must be {must_be}")]
    Value {
        /// The attribute.
        attribute: String,
        /// What it must be.
        must_be: &'static str,
    },
    /// A name that an extension's attribute cannot have.
    #[error(
        "{name:?} is no name of an extension's attribute: 1 to 20 lower-case letters and digits, none of the specification's own"
    )]
    Name {
        /// The name.
        name: String,
    },
}
