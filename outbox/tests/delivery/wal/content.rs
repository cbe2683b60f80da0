//! What is appended by Rust and by plain SQL, and what neither takes.

use leastlock_outbox::wal::WalError;
use leastlock_outbox::{Error, Event, EventId, MemorySink};
use leastlock_testkit::TestDatabase;
use sqlx::Postgres;
use tokio_util::sync::CancellationToken;

use super::Shop;
use crate::readers::PATIENCE;

pub(crate) async fn events_from_rust_and_from_plain_sql_are_the_same(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    let events = [
        Event::new("stock-moves", "85123A").bytes("{}").header("a", "1").header("a", "2").partition(7),
        Event::without_key("stock-moves").bytes([0x00, 0xff]),
        Event::new("stock-moves", [0xfe, 0x00]),
        Event::new("stock-moves", "").bytes(""),
    ];
    let mut tx = shop.pool().begin().await.unwrap();
    shop.outbox.append_all(&mut tx, &events).await.unwrap();
    for event in &events {
        let append = "SELECT leastlock_wal_append($1, 'stock-moves', $2, $3, $4, $5, $6::text::uuid)::text";
        let (key, headers, partition) = match event.id() {
            id if id == events[0].id() => (Some(&b"85123A"[..]), r#"[["a","1"],["a","2"]]"#, Some(7)),
            id if id == events[1].id() => (None, "[]", None),
            id if id == events[2].id() => (Some(&[0xfe, 0x00][..]), "[]", None),
            _ => (Some(&b""[..]), "[]", None::<i32>),
        };
        let appended =
            sqlx::query_scalar::<_, String>(append).bind(&shop.name).bind(key).bind(event.value()).bind(headers);
        let id = appended.bind(partition).bind(event.id().to_string()).fetch_one(&mut *tx).await.unwrap();
        assert_eq!(EventId::parse(&id).unwrap(), event.id());
    }
    tx.commit().await.unwrap();
    let sink = MemorySink::default();
    let relay = shop.outbox.relay(shop.pool(), sink.clone()).build().unwrap();
    let running = tokio::spawn(relay.run(CancellationToken::new()));
    let mut published = tokio::time::timeout(PATIENCE, sink.wait_for(8)).await.unwrap();
    running.abort();
    for event in &mut published {
        (event.id, event.age_ms) = (0, 0);
    }
    let (rust, sql) = published.split_at(4);
    assert_eq!(rust, sql);
    assert_eq!(rust[0].partition, Some(7));
    assert_eq!(rust[0].headers.to_stored(), r#"[["a","1"],["a","2"]]"#);
    assert_eq!((rust[1].key.clone(), rust[1].value.as_deref()), (None, Some(&[0x00, 0xff][..])));
    assert_eq!((rust[2].key.as_deref(), rust[2].value.clone()), (Some(&[0xfe, 0x00][..]), None));
    assert_eq!((rust[3].key.as_deref(), rust[3].value.as_deref()), (Some(&b""[..]), Some(&b""[..])));
}

/// A NULL for the id would make the whole content NULL, and such a message is not written at all.
pub(crate) async fn event_of_plain_sql_without_an_id_is_not_lost(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    let append = "SELECT leastlock_wal_append(current_database()::text, 'moves', 'k', 'v', '[]', NULL, NULL)::text";
    let id: Option<String> = sqlx::query_scalar(append).fetch_one(shop.pool()).await.unwrap();
    let id = EventId::parse(&id.expect("an id")).unwrap();
    let sink = MemorySink::default();
    let relay = shop.outbox.relay(shop.pool(), sink.clone()).build().unwrap();
    let running = tokio::spawn(relay.run(CancellationToken::new()));
    let published = tokio::time::timeout(PATIENCE, sink.wait_for(1)).await.expect("it leaves");
    running.abort();
    assert_eq!((published[0].event_id, published[0].headers.len()), (id, 0));
}

/// One that cannot be read stops the whole outbox.
pub(crate) async fn plain_sql_refuses_what_the_relay_cannot_read(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    let wrong = |arguments: &str| format!("SELECT leastlock_wal_append(current_database()::text, {arguments})");
    let mut all = vec!["SELECT leastlock_wal_append('no_such_slot', 'moves', NULL, NULL)".to_owned()];
    all.extend(
        [
            "'stock moves', NULL, NULL",
            "E'moves\\n', NULL, NULL",
            "NULL, NULL, NULL",
            "'moves', NULL, NULL, '[]', -1",
            "'moves', NULL, convert_to(repeat('x', 1000001), 'UTF8')",
        ]
        .map(wrong),
    );
    let headers = [
        "{}",
        "[1]",
        "[[\"a\"]]",
        "[[\"a\", 1]]",
        "[[\"a\", {\"hex\": 10}]]",
        "[[\"a\", {\"hex\": \"a\\n\"}]]",
        "[[\"a\", {\"hex\": \"zz\"}]]",
        "[[\"a\\u0000\", \"b\"]]",
        "[[\"leastlock_event_id\", \"b\"]]",
        "[[\"ce_specversion\", \"1.0\"], [\"ce_id\", \"mine\"]]",
    ];
    all.extend(headers.map(|headers| wrong(&format!("'moves', NULL, NULL, '{headers}'"))));
    for wrong in all {
        assert!(sqlx::query(sqlx::AssertSqlSafe(wrong.clone())).execute(shop.pool()).await.is_err(), "{wrong}");
    }
}

pub(crate) async fn events_that_would_be_lost_are_refused(database: TestDatabase<Postgres>) {
    let shop = Shop::open(database).await;
    shop.outbox.teardown(shop.pool()).await.unwrap();
    let mut tx = shop.pool().begin().await.unwrap();
    let refused = shop.outbox.append(&mut tx, Event::new("moves", "k").bytes("lost")).await;
    assert!(matches!(refused, Err(Error::Wal(WalError::Missing { .. }))), "{refused:?}");
    tx.rollback().await.unwrap();
    // A slot of the same name in another database does not keep them either.
    let other = TestDatabase::<Postgres>::create().await;
    let elsewhere = leastlock_outbox::WalOutbox::new(&shop.name).unwrap();
    elsewhere.setup(&other.pool).await.unwrap();
    let mut tx = shop.pool().begin().await.unwrap();
    let refused = shop.outbox.append(&mut tx, Event::new("moves", "k").bytes("lost")).await;
    assert!(matches!(refused, Err(Error::Wal(WalError::Missing { .. }))), "{refused:?}");
    tx.rollback().await.unwrap();

    let mut tx = other.pool.begin().await.unwrap();
    let large = elsewhere.clone().max_event_bytes(10).append(&mut tx, Event::new("moves", "k").bytes([0; 10])).await;
    assert!(matches!(large, Err(Error::EventTooLarge { bytes: 11, limit: 10 })), "{large:?}");
    elsewhere.append(&mut tx, Event::new("moves", "k").bytes("kept")).await.unwrap();
    tx.commit().await.unwrap();
}
