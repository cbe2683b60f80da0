//! Events that no Rust appended. The statements are those of the guide.

use leastlock_core::Engine;
use leastlock_outbox::{Event, EventId, LoggedEvent, OutboxSql};
use leastlock_testkit::{TestDatabase, TestEngine};
use sqlx::{AssertSqlSafe, Transaction};

use crate::leaving::{begin, leaving, tables};
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub(crate) use servers::*;

/// As a session of `psql` or `mysql` has it: statements without parameters.
async fn session<DB: TestEngine>(tx: &mut Transaction<'_, DB>, text: String) -> Result<(), sqlx::Error> {
    for statement in text.split(';').filter(|statement| !statement.trim().is_empty()) {
        DB::fetch_all_query(tx, sqlx::query(AssertSqlSafe(statement.to_owned()))).await?;
    }
    Ok(())
}

/// The ways to append that the guide shows.
fn ways(engine: Engine) -> &'static [&'static str] {
    match engine {
        Engine::Postgres => &[include_str!("plain/postgres_insert.sql"), include_str!("plain/postgres_function.sql")],
        Engine::Sqlite => &[include_str!("plain/sqlite_insert.sql")],
        _ => &[include_str!("plain/mysql_insert.sql"), include_str!("plain/mysql_procedure.sql")],
    }
}

/// What must be the same whoever appended it.
fn told(event: &LoggedEvent) -> LoggedEvent {
    let mut told = event.clone();
    (told.id, told.event_id, told.age_ms) = (0, EventId::parse(NIL).expect("a UUID"), 0);
    told
}

const NIL: &str = "00000000-0000-0000-0000-000000000000";

pub(crate) async fn event_of_plain_sql_leaves_like_one_of_the_crate<DB: TestEngine + OutboxSql>(
    database: TestDatabase<DB>,
) {
    let (database, outbox) = tables(database).await;
    let ways = ways(DB::ENGINE);
    let mut tx = begin(&database).await;
    for way in ways {
        session(&mut tx, (*way).to_owned()).await.unwrap_or_else(|error| panic!("{way}: {error}"));
    }
    tx.rollback().await.expect("the rollback");
    let mut tx = begin(&database).await;
    let event = Event::new("stock-moves", "85123A").bytes(r#"{"units": -3}"#).header("source", "shop");
    outbox.append(&mut tx, event).await.expect("it is appended");
    for way in ways {
        session(&mut tx, (*way).to_owned()).await.unwrap_or_else(|error| panic!("{way}: {error}"));
    }
    let marker = Event::new("stock-moves", "85123A").bytes("marker");
    outbox.append(&mut tx, marker).await.expect("it is appended");
    tx.commit().await.expect("the commit");
    let left = leaving(&database, ways.len() + 2).await;
    // Nothing of the transaction that was rolled back; in one shard, so in their order.
    assert_eq!(left.len(), ways.len() + 2);
    assert_eq!(left.last().and_then(|event| event.value.as_deref()), Some(&b"marker"[..]));
    for event in &left[1..=ways.len()] {
        assert_eq!(told(event), told(&left[0]));
    }
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
mod servers {
    use std::collections::HashSet;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use leastlock_core::{ErrorClass, Statement, classify};
    use leastlock_outbox::Outbox;
    use leastlock_testkit::database::sql;

    use super::*;

    /// A call of the function, or of the procedure.
    fn call<DB: TestEngine>(postgres: &str, mysql: &str) -> String {
        match DB::ENGINE {
            Engine::Postgres => format!("SELECT leastlock_outbox_append({postgres})"),
            _ => format!("CALL leastlock_outbox_append({mysql})"),
        }
    }

    /// A call with these headers.
    fn with_headers<DB: TestEngine>(headers: &str) -> String {
        // In MariaDB's literals a backslash escapes.
        let headers = if DB::ENGINE == Engine::MySql { headers.replace('\\', r"\\") } else { headers.to_owned() };
        let arguments = format!("'t', 'k', 'v', '{headers}', NULL, NULL, FALSE");
        call::<DB>(&arguments, &arguments)
    }

    fn random_event(rng: &mut fastrand::Rng) -> Event {
        let topic: String = (0..rng.usize(1..=249)).map(|_| rng.alphanumeric()).collect();
        let key: Vec<u8> = (0..rng.usize(0..=300)).map(|_| rng.u8(..)).collect();
        if rng.u8(0..10) == 0 { Event::without_key(topic) } else { Event::new(topic, key) }.bytes("v")
    }

    /// 1,000 random keys; the double forgets the length of the topic.
    pub(crate) async fn sql_finds_the_shard_that_the_crate_finds<DB: TestEngine + OutboxSql>(
        database: TestDatabase<DB>,
    ) {
        let (database, outbox) = tables(database).await;
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut rng = fastrand::Rng::with_seed(seed);
        let events: Vec<_> = (0..1_000).map(|_| random_event(&mut rng)).collect();
        let mut tx = begin(&database).await;
        outbox.append_all(&mut tx, &events).await.expect("they are appended");
        tx.commit().await.expect("the commit");
        let elsewhere = sql::<DB>(
            "SELECT count(*) FROM leastlock_outbox WHERE shard <> leastlock_outbox_shard_of(topic, key, event_id)",
            "SELECT count(*) FROM leastlock_outbox WHERE shard <> CONV(LEFT(SHA2(CONCAT( \
             UNHEX(LPAD(HEX(LENGTH(topic)), 16, '0')), topic, COALESCE(`key`, event_id)), 256), 8), 16, 10) % 16",
        );
        assert_eq!(database.int(elsewhere).await, 0);
        let double = sql::<DB>(
            "SELECT count(*) FROM leastlock_outbox WHERE shard <> leastlock_outbox_shard_of('', \
             convert_to(topic, 'UTF8') || coalesce(key, convert_to(event_id::text, 'UTF8')), event_id)",
            "SELECT count(*) FROM leastlock_outbox WHERE shard <> CONV(LEFT(SHA2(CONCAT( \
             topic, COALESCE(`key`, event_id)), 256), 8), 16, 10) % 16",
        );
        assert!(database.int(double).await > 800, "the double must be seen to find others");
    }

    /// Whether the function gets through with the key while somebody holds the key's lock.
    async fn gets_through<DB: TestEngine>(database: &TestDatabase<DB>, key: &[u8], strict: bool) -> bool {
        let mut tx = begin(database).await;
        let bound = sql::<DB>("SET LOCAL lock_timeout = '1ms'", "SET SESSION innodb_lock_wait_timeout = 0");
        Statement::new(bound).execute::<DB>(&mut tx).await.expect("the bound on the wait");
        let hex = key.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        let postgres = format!(r"'t', '\x{hex}', 'v', strict_mode => {strict}");
        let appended =
            session(&mut tx, call::<DB>(&postgres, &format!("'t', X'{hex}', 'v', NULL, NULL, NULL, {strict}")));
        match appended.await {
            Ok(()) => true,
            Err(error) if classify::<DB>(&error) == ErrorClass::LockTimeout => false,
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn sql_takes_the_lock_that_the_crate_takes<DB: TestEngine + OutboxSql>(
        database: TestDatabase<DB>,
    ) {
        let (database, outbox) = tables(database).await;
        let strict: Outbox = outbox.strict();
        for _ in 0..50 {
            let key: Vec<u8> = (0..fastrand::usize(0..=40)).map(|_| fastrand::u8(..)).collect();
            let mut tx = begin(&database).await;
            strict.append(&mut tx, Event::new("t", key.as_slice()).bytes("v")).await.expect("it is appended");
            assert!(!gets_through(&database, &key, true).await, "{key:?}");
            assert!(gets_through(&database, &key, false).await, "who is not strict does not wait");
            tx.rollback().await.expect("the rollback");
            assert!(gets_through(&database, &key, true).await, "{key:?}");
        }
    }

    pub(crate) async fn plain_sql_refuses_what_the_crate_refuses<DB: TestEngine + OutboxSql>(
        database: TestDatabase<DB>,
    ) {
        let (database, _) = tables(database).await;
        let same = |arguments: &str| call::<DB>(arguments, arguments);
        let long = format!("'{}', 'k', 'v', NULL, NULL, NULL, FALSE", "t".repeat(250));
        let mut refused = vec![
            same("'stock moves', 'k', 'v', NULL, NULL, NULL, FALSE"),
            call::<DB>("E'orders\\n', 'k', 'v'", "CONCAT('orders', CHAR(10)), 'k', 'v', NULL, NULL, NULL, FALSE"),
            call::<DB>(
                "'t', 'k', 'v', NULL, NULL, E'01890a5d-ac96-774b-bcce-b302099a80\\n'::uuid",
                "'t', 'k', 'v', NULL, NULL, CONCAT('01890a5d-ac96-774b-bcce-b302099a8057', CHAR(10)), FALSE",
            ),
            same("'', 'k', 'v', NULL, NULL, NULL, FALSE"),
            same("NULL, 'k', 'v', NULL, NULL, NULL, FALSE"),
            same(&long),
            same("'t', 'k', 'v', NULL, -1, NULL, FALSE"),
            same("'t', 'k', 'v', NULL, NULL, 'no uuid', FALSE"),
            call::<DB>(
                "'t', 'k', convert_to(repeat('x', 1000000), 'UTF8')",
                "'t', 'k', REPEAT('x', 1000000), NULL, NULL, NULL, FALSE",
            ),
        ];
        let headers = [
            "{}",
            "no json",
            "[1]",
            "[[\"a\"]]",
            "[[\"a\", 1]]",
            "[[\"a\", \"b\", \"c\"]]",
            "[[1, \"a\"]]",
            "[[\"a\", {\"hex\": \"f\"}]]",
            "[[\"a\", {\"hex\": \"zz\"}]]",
            "[[\"a\", {\"text\": \"b\"}]]",
            "[[\"a\", {\"hex\": 10}]]",
            "[[\"a\", {\"hex\": \"a\\u000a\"}]]",
            "[[\"a\", {\"hex\": \"00\", \"hex\": 10}]]",
            "[[\"a\", \"\\ud800\"]]",
            "[[\"leastlock_event_id\", \"b\"]]",
            "{\"a\": \"b\"}",
            "[[\"ce_specversion\", \"1.0\"], [\"ce_id\", \"mine\"]]",
            "[[\"ce_specversion\", \"1.0\"], [\"ce_type\", \"a\"], [\"ce_type\", \"b\"]]",
        ];
        refused.extend(headers.map(with_headers::<DB>));
        for text in refused {
            let mut tx = begin(&database).await;
            assert!(session(&mut tx, text.clone()).await.is_err(), "{text}");
            tx.rollback().await.expect("the rollback");
        }
        assert_eq!(database.int("SELECT count(*) FROM leastlock_outbox").await, 0);
        // What is right is taken, and can be read by a relay.
        let taken = r#"[["b", "1"], ["a", {"hex": "FF00"}], ["n", null], ["b", "ü"], ["b", ""], ["ce_id", "1"], ["ce_id", "2"]]"#;
        let mut tx = begin(&database).await;
        session(&mut tx, with_headers::<DB>(taken)).await.expect("it is appended");
        let given = "01890A5D-ac96-774b-bcce-b302099a8057";
        let arguments = format!("'t', NULL, NULL, NULL, 3, '{given}', TRUE");
        session(&mut tx, call::<DB>(&arguments, &arguments)).await.expect("it is appended");
        tx.commit().await.expect("the commit");
        let left = leaving(&database, 2).await;
        let of = |has_key: bool| left.iter().find(|event| event.key.is_some() == has_key).expect("it left");
        let headers = r#"[["b","1"],["a",{"hex":"ff00"}],["n",null],["b","ü"],["b",""],["ce_id","1"],["ce_id","2"]]"#;
        assert_eq!(of(true).headers.to_stored(), headers);
        let tombstone = of(false);
        assert_eq!((tombstone.event_id.to_string(), tombstone.partition), (given.to_lowercase(), Some(3)));
        assert_eq!(tombstone.value, None);
    }

    /// By the old number the event would be refused, and by a wrong one it would be out of order.
    #[cfg(feature = "postgres")]
    pub(crate) async fn plain_sql_appends_to_the_shards_that_take_events(database: TestDatabase<sqlx::Postgres>) {
        let (database, _) = tables(database).await;
        let mut before = begin(&database).await;
        session(&mut before, with_headers::<sqlx::Postgres>("[]")).await.expect("it is appended");
        before.commit().await.expect("the commit");
        leastlock_outbox::raise_shards(&database.pool, 23).await.expect("there are more shards");
        // One that was opened before would fail once.
        let outbox = Outbox::open(&database.pool).await.expect("the tables are there");
        let mut tx = begin(&database).await;
        for key in 0..100 {
            outbox.append(&mut tx, Event::new("t", key.to_string()).bytes("v")).await.expect("it is appended");
            session(&mut tx, format!("SELECT leastlock_outbox_append('t', '{key}', 'v')"))
                .await
                .expect("it is appended");
        }
        tx.commit().await.expect("the commit");
        let split = "SELECT count(*) FROM (SELECT key FROM leastlock_outbox WHERE shard > 15 \
             GROUP BY key HAVING count(*) = 2 AND min(shard) = max(shard)) AS together";
        assert_eq!(database.int(split).await, 100);
    }

    /// RFC 9562, section 5.7.
    pub(crate) async fn sql_makes_ids_of_version_7<DB: TestEngine + OutboxSql>(database: TestDatabase<DB>) {
        let (database, _) = tables(database).await;
        let mut tx = begin(&database).await;
        for _ in 0..200 {
            session(&mut tx, with_headers::<DB>("[]")).await.expect("it is appended");
        }
        tx.commit().await.expect("the commit");
        let ids: HashSet<_> = leaving(&database, 200).await.iter().map(|event| event.event_id.to_string()).collect();
        assert_eq!(ids.len(), 200, "each is new");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        for id in ids {
            assert!(id.as_bytes()[14] == b'7' && b"89ab".contains(&id.as_bytes()[19]), "{id}");
            let made_at = u64::from_str_radix(&id.replace('-', "")[..12], 16).expect("digits");
            assert!(now.abs_diff(Duration::from_millis(made_at)) < Duration::from_mins(10), "{id}");
        }
    }
}
