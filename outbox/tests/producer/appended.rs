//! What is said of an event beside its value.

use leastlock_outbox::{CloudEvent, Error, Event, LoggedEvent, Outbox, OutboxSql, TraceContext};
use leastlock_testkit::{TestDatabase, TestEngine};
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use tracing::Instrument;
use tracing::instrument::WithSubscriber;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::layer::SubscriberExt;

use crate::leaving::{begin, leaving, tables, values};

async fn left_of<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>, events: Vec<Event>) -> Vec<LoggedEvent> {
    let (database, outbox) = tables(database).await;
    let mut tx = begin(&database).await;
    for event in &events {
        outbox.append(&mut tx, event.clone()).await.expect("it is appended");
    }
    tx.commit().await.expect("the commit");
    leaving(&database, events.len()).await
}

/// An event with headers of every kind; `null` adds the one without a value.
fn with_every_kind(null: impl Fn(Event) -> Event) -> Event {
    let event = Event::new("t", "k").header("b", "1").header("a", [0xff, 0x00, 0x1a]).header("b", "2");
    null(event).header("n", "").header("ü", "\"\\\u{10348}").header("b", "1")
}

pub(crate) async fn headers_of_every_kind_leave_as_they_were<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let event = with_every_kind(|event| event.null_header("n"));
    let tombstone = Event::new("t", "k").partition(3).null_header("only");
    let left = left_of(database, vec![event.clone(), tombstone]).await;
    assert_eq!(left[0].headers, *event.headers());
    assert_eq!((&left[1].value, left[1].partition, left[1].headers.len()), (&None, Some(3), 1));
    // The double takes no value for an empty one.
    let double = with_every_kind(|event| event.header("n", ""));
    let left = left_of(TestDatabase::<DB>::create().await, vec![double]).await;
    assert_ne!(left[0].headers, *event.headers());
}

pub(crate) async fn what_no_broker_takes_is_refused_before_any_sql<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (database, outbox) = tables(database).await;
    let cloud_event = || Event::new("t", "k").cloud_event(CloudEvent::new("t", "/s").expect("attributes"));
    let refused = [
        Event::new("t", "k").header("a\0b", "1"),
        Event::new("t", "k").header("leastlock_event_id", "1"),
        cloud_event().header("ce_id", "1"),
        cloud_event().header("ce_type", "other"),
        cloud_event().header("content-type", "a/b").header("content-type", "a/b"),
        cloud_event().cloud_event(CloudEvent::new("t", "/s").expect("attributes")),
    ];
    let mut tx = begin(&database).await;
    for event in refused {
        let alone = outbox.append(&mut tx, event.clone()).await;
        assert!(matches!(alone, Err(Error::Header { .. })), "{event:?}: {alone:?}");
        let together = outbox.append_all(&mut tx, &[Event::new("t", "k"), event.clone()]).await;
        assert!(matches!(together, Err(Error::Header { .. })), "{event:?}: {together:?}");
    }
    // Such names mean nothing where the event is no CloudEvent.
    let taken = Event::new("t", "k").header("ce_id", "1").header("ce_id", "2").bytes("taken");
    outbox.append(&mut tx, taken).await.expect("it is appended");
    tx.commit().await.expect("the commit");
    assert_eq!(values(&leaving(&database, 1).await), ["taken"]);
}

/// As the documentation of the module `trace` has it.
fn current_span() -> Option<TraceContext> {
    let context = tracing::Span::current().context();
    let span = context.span().span_context().clone();
    let traced = TraceContext::of_span(span.trace_id().to_bytes(), span.span_id().to_bytes(), span.is_sampled())?;
    Some(traced.clone().with_state(&span.trace_state().header()).unwrap_or(traced))
}

/// Appends in two spans and outside of any; answers the span that each event's consumer would find, and those that there were.
async fn traces<DB: TestEngine + OutboxSql>(
    database: &TestDatabase<DB>,
    outbox: &Outbox,
) -> (Vec<Option<String>>, Vec<Option<String>>) {
    let mut spans = Vec::new();
    for name in ["first", "second"] {
        let appended = async {
            let mut tx = begin(database).await;
            let alone = Event::new("t", "k").bytes("alone");
            outbox.append(&mut tx, alone).await.expect("it is appended");
            let own = TraceContext::parse(OWN).expect("a parent");
            let together =
                [Event::new("t", "k").bytes("together"), Event::new("t", "k").bytes("own").trace_context(own)];
            outbox.append_all(&mut tx, &together).await.expect("they are appended");
            tx.commit().await.expect("the commit");
            current_span().map(|context| context.parent().to_owned())
        };
        let span = appended.instrument(tracing::info_span!("request", name)).await;
        spans.extend([span.clone(), span, Some(OWN.to_owned())]);
    }
    let mut tx = begin(database).await;
    outbox.append(&mut tx, Event::new("t", "k").bytes("outside")).await.expect("it is appended");
    tx.commit().await.expect("the commit");
    spans.push(None);
    let parent = |event: &LoggedEvent| {
        event.headers.last("traceparent").map(|parent| String::from_utf8(parent.to_vec()).expect("text"))
    };
    (leaving(database, spans.len()).await.iter().map(parent).collect(), spans)
}

const OWN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

pub(crate) async fn trace_of_the_current_span_goes_with_the_event<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let tracer = opentelemetry_sdk::trace::SdkTracerProvider::builder().build().tracer("outbox");
    let subscriber = tracing_subscriber::registry().with(tracing_opentelemetry::layer().with_tracer(tracer));
    let shown = async {
        let (database, outbox) = tables(database).await;
        let (found, spans) = traces(&database, &outbox.trace_context(current_span)).await;
        assert_eq!(found, spans);
        assert!(spans[0].is_some() && spans[0] != spans[3], "two spans: {spans:?}");

        // The double asks once, when the outbox is made.
        let (database, outbox) = tables(TestDatabase::<DB>::create().await).await;
        let once = async { current_span() }.instrument(tracing::info_span!("start")).await;
        let (found, spans) = traces(&database, &outbox.trace_context(move || once.clone())).await;
        assert_ne!(found, spans, "the double must be caught");
    };
    shown.with_subscriber(subscriber).await;
}

pub(crate) async fn cloud_event_leaves_with_its_attributes<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
    let attributes = CloudEvent::new("com.example.shop.order-placed", "https://example.com/shop").expect("attributes");
    let attributes = attributes.subject("order/17").and_then(|event| event.partition_key("17")).expect("attributes");
    let keyed = Event::new("orders", "own").json(&17).expect("JSON").cloud_event(attributes.clone());
    let without = Event::without_key("orders").cloud_event(attributes).header("after", "1");
    let left = left_of(database, vec![keyed.clone(), without]).await;
    let event = |key: &[u8]| left.iter().find(|event| event.key.as_deref() == Some(key)).expect("it left");
    let keyed_left = event(b"own");
    assert_eq!(keyed_left.headers, *keyed.headers(), "a key of its own stays");
    let tombstone = event(b"17");
    assert_eq!(tombstone.value, None, "no data is a tombstone");
    let names: Vec<_> = tombstone.headers.iter().map(|(name, _)| name).collect();
    let attributes = ["ce_specversion", "ce_type", "ce_source", "ce_subject", "ce_partitionkey", "ce_time", "after"];
    assert_eq!(names, attributes, "without data there is no content type");
    let text = |name| str::from_utf8(keyed_left.headers.last(name).expect(name)).expect("text");
    assert_eq!(
        [text("ce_specversion"), text("ce_subject"), text("ce_partitionkey"), text("content-type")],
        ["1.0", "order/17", "17", "application/json"]
    );
}

/// Larger together than what a statement carries, and some of them alone.
pub(crate) async fn more_events_than_a_statement_takes_keep_their_order<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (database, outbox) = tables(database).await;
    let outbox = outbox.max_event_bytes(6_000_000);
    let sizes = [900_000, 3, 5_000_000, 7, 900_000, 900_000, 900_000, 900_000, 900_000, 1];
    let event = |(number, size): (usize, usize)| {
        Event::new("t", "k").bytes(vec![b'a' + u8::try_from(number).expect("few"); size])
    };
    let events: Vec<_> = sizes.into_iter().enumerate().map(event).collect();
    let mut tx = begin(&database).await;
    outbox.append_all(&mut tx, &events).await.expect("they are appended");
    tx.commit().await.expect("the commit");
    let left = leaving(&database, events.len()).await;
    let values: Vec<_> = left.iter().map(|event| event.value.as_deref()).collect();
    assert!(values == events.iter().map(Event::value).collect::<Vec<_>>(), "in their order, whole");
}
