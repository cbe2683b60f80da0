//! Which trace an event belongs to.
//!
//! W3C Trace Context (Recommendation, 23 November 2021) names two headers: `traceparent` says which trace and which span of it,
//! `tracestate` carries what tracing systems add. Both are stored with the event and go out as headers of these names, so the
//! consumer's span, however much later, has the span that appended the event for its parent.
//!
//! The span in which an event is appended is known to the application's tracing library only. So the outbox is given a function that
//! answers it ([`Outbox::trace_context`](crate::Outbox::trace_context)) instead of depending on such a library: those change their
//! interface several times a year, and one linked in another version than the application's would answer, without an error, that
//! there is no span. With `tracing-opentelemetry` the function is
//!
//! ```
//! use leastlock_outbox::TraceContext;
//! use opentelemetry::trace::TraceContextExt;
//! use tracing_opentelemetry::OpenTelemetrySpanExt;
//!
//! fn current_span() -> Option<TraceContext> {
//!     let context = tracing::Span::current().context();
//!     let span = context.span().span_context().clone();
//!     let traced = TraceContext::of_span(span.trace_id().to_bytes(), span.span_id().to_bytes(), span.is_sampled())?;
//!     Some(traced.clone().with_state(&span.trace_state().header()).unwrap_or(traced))
//! }
//! # assert_eq!(current_span(), None);
//! ```
//!
//! and `outbox.trace_context(current_span)` is all that is left to do.

use std::fmt;
use std::sync::Arc;

use crate::headers::{Headers, hex};

/// The header that names the trace and the span.
pub const TRACEPARENT: &str = "traceparent";
/// The header that carries what tracing systems add.
pub const TRACESTATE: &str = "tracestate";

/// Characters of a `traceparent` of version 00.
const PARENT_CHARS: usize = 55;
/// The most members of a `tracestate` (section 3.3.1.1).
const MAX_MEMBERS: usize = 32;

/// A trace, a span of it, and what tracing systems add.
///
/// ```
/// use leastlock_outbox::TraceContext;
///
/// let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let context = TraceContext::parse(parent)?.with_state("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE")?;
/// assert_eq!(context.parent(), parent);
/// assert!(TraceContext::parse("00-00000000000000000000000000000000-00f067aa0ba902b7-01").is_err());
/// # Ok::<(), leastlock_outbox::trace::TraceContextError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    parent: String,
    state: String,
}

impl TraceContext {
    /// The context of a span. `None` where the trace or the span is zero, which means that there is none.
    #[must_use]
    pub fn of_span(trace_id: [u8; 16], span_id: [u8; 8], is_sampled: bool) -> Option<Self> {
        if trace_id == [0; 16] || span_id == [0; 8] {
            return None;
        }
        let parent = format!("00-{}-{}-0{}", hex(&trace_id), hex(&span_id), u8::from(is_sampled));
        Some(Self { parent, state: String::new() })
    }

    /// Reads a `traceparent`. One of a later version than 00 is taken as section 3.2.4 says: its first four fields are, and the
    /// rest stays as it is.
    ///
    /// # Errors
    /// When it is none, or one of the version `ff`, or names no trace or no span.
    pub fn parse(parent: &str) -> Result<Self, TraceContextError> {
        if is_parent(parent) {
            return Ok(Self { parent: parent.to_owned(), state: String::new() });
        }
        Err(TraceContextError {
            header: TRACEPARENT,
            must_be: "version, trace, span and flags, as lower-case hex digits",
        })
    }

    /// Adds a `tracestate`; an empty one is none.
    ///
    /// # Errors
    /// When it is not a list of at most 32 `key=value` with different keys. The specification lets the trace go on without it then.
    pub fn with_state(mut self, state: &str) -> Result<Self, TraceContextError> {
        if !is_state(state) {
            return Err(TraceContextError { header: TRACESTATE, must_be: "up to 32 members key=value, each key once" });
        }
        state.clone_into(&mut self.state);
        Ok(self)
    }

    /// The `traceparent`.
    #[must_use]
    pub fn parent(&self) -> &str {
        &self.parent
    }

    /// The `tracestate`, if there is one.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        (!self.state.is_empty()).then_some(self.state.as_str())
    }

    pub(crate) fn push_to(self, headers: &mut Headers) {
        headers.push(TRACEPARENT.to_owned(), self.parent.into_bytes());
        if !self.state.is_empty() {
            headers.push(TRACESTATE.to_owned(), self.state.into_bytes());
        }
    }
}

/// Answers the trace context of the moment.
#[derive(Clone)]
pub(crate) struct TraceSource(pub(crate) Arc<dyn Fn() -> Option<TraceContext> + Send + Sync>);

impl fmt::Debug for TraceSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("TraceSource").finish_non_exhaustive()
    }
}

/// Why a header is none of W3C Trace Context's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{header} must be {must_be} (W3C Trace Context)")]
pub struct TraceContextError {
    /// Which header.
    pub header: &'static str,
    /// What it must be.
    pub must_be: &'static str,
}

fn is_parent(parent: &str) -> bool {
    let Some((fields, rest)) = parent.split_at_checked(PARENT_CHARS) else { return false };
    let mut fields = fields.split('-');
    let mut field =
        |digits: usize| fields.next().filter(|field| field.len() == digits && field.bytes().all(is_lower_hex));
    let (Some(version), Some(trace), Some(span), Some(_flags)) = (field(2), field(32), field(16), field(2)) else {
        return false;
    };
    let is_zero = |field: &str| field.bytes().all(|digit| digit == b'0');
    let may_have_rest = version != "00" && rest.starts_with('-') && rest.bytes().all(|byte| byte.is_ascii_graphic());
    version != "ff" && !is_zero(trace) && !is_zero(span) && (rest.is_empty() || may_have_rest)
}

fn is_lower_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

/// Section 3.3: members may be empty and have blanks around them; keys are unique.
fn is_state(state: &str) -> bool {
    let mut keys = Vec::new();
    for member in state.split(',').map(|member| member.trim_matches([' ', '\t'])) {
        if member.is_empty() {
            continue;
        }
        match member.split_once('=') {
            Some((key, value)) if is_key(key) && is_value(value) && !keys.contains(&key) => keys.push(key),
            _ => return false,
        }
    }
    keys.len() <= MAX_MEMBERS
}

/// A simple key, or `tenant@system`.
fn is_key(key: &str) -> bool {
    let is_part = |part: &str, most: usize, begins: fn(u8) -> bool| {
        let rest = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/".contains(&byte);
        part.len() <= most && part.bytes().next().is_some_and(begins) && part.bytes().all(rest)
    };
    let letter: fn(u8) -> bool = |byte| byte.is_ascii_lowercase();
    let letter_or_digit: fn(u8) -> bool = |byte| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    match key.split_once('@') {
        Some((tenant, system)) => is_part(tenant, 241, letter_or_digit) && is_part(system, 14, letter),
        None => is_part(key, 256, letter),
    }
}

fn is_value(value: &str) -> bool {
    let printable = |byte: u8| (0x20..=0x7e).contains(&byte) && !matches!(byte, b',' | b'=');
    (1..=256).contains(&value.len()) && !value.ends_with(' ') && value.bytes().all(printable)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn parents_are_those_of_the_recommendation() {
        let right = [
            PARENT,
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-holds",
        ];
        let wrong = [
            "",
            "00-4BF92F3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.more",
            "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0é",
        ];
        for parent in right {
            assert!(TraceContext::parse(parent).is_ok(), "{parent}");
        }
        for parent in wrong {
            assert!(TraceContext::parse(parent).is_err(), "{parent}");
        }
    }

    #[test]
    fn states_are_those_of_the_recommendation() {
        let many = |members: usize| (0..members).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
        let long = |chars: usize| format!("k={}", "v".repeat(chars));
        let right = [
            "",
            "rojo=1",
            "rojo=1,congo=t61rcWkgMzE",
            "fw529a3039@dt=FfffeeeE0x==".trim_end_matches('='),
            "a=1, ,b=2\t",
        ];
        let wrong = ["rojo", "Rojo=1", "a=1,a=2", "a=b=c", "a=", "=1", "1a=2", "a=é", "a@1=2", "a@b@c=1"];
        for state in right.into_iter().chain([many(32).as_str(), long(256).as_str()]) {
            assert!(TraceContext::parse(PARENT).unwrap().with_state(state).is_ok(), "{state}");
        }
        for state in wrong.into_iter().chain([many(33).as_str(), long(257).as_str()]) {
            assert!(TraceContext::parse(PARENT).unwrap().with_state(state).is_err(), "{state}");
        }
    }

    #[test]
    fn context_of_a_span_is_one_that_can_be_read() {
        let span = TraceContext::of_span([0x4b; 16], [0x0f; 8], true).unwrap();
        assert_eq!(TraceContext::parse(span.parent()), Ok(span));
        assert_eq!(TraceContext::of_span([0; 16], [1; 8], true), None);
        assert_eq!(TraceContext::of_span([1; 16], [0; 8], true), None);
    }
}
