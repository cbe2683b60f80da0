//! I18: the process is killed (SIGKILL) at every point between claim and reply, and the client asks again.

use std::time::Duration;

use leastlock_core::Statement;
use leastlock_idempotency::{Begin, BeginIn, IdempotencySql, Keys, OnDuplicate};
use leastlock_testkit::checkers::exactly_once::{Event, at_most_once_and_once_after_success};
use leastlock_testkit::process::{Child, child_role, hear, speak};
use leastlock_testkit::{TestDatabase, TestEngine};

use crate::keeper::{Call, fingerprint, insert_effect, key, tables};
use crate::overlap::PATIENCE;

/// The child's test function.
const WORKER: &str = "kills::worker";
/// The bound on a unit that idles: a killed owner's connection ends at once, and this is what holds if that is not seen.
const IDLE_LIMIT: Duration = Duration::from_secs(2);

/// Where the worker says that it is, and waits to be killed.
const POINTS: [&str; 5] = ["claimed", "effect made", "answer stored", "committed", "replied"];

/// How a worker does its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worker {
    /// With a unit, by `begin`.
    Unit,
    /// In a transaction of its own, by `begin_in`.
    Joins,
    /// The double: makes the effect first, in a transaction of its own, and remembers the key afterwards.
    EffectApart,
}

pub(crate) async fn i18_worker_killed_at_any_point_leaves_one_effect_at_most<DB: TestEngine + IdempotencySql>(
    database: TestDatabase<DB>,
) {
    let database = tables(database).await;
    let mut history = Vec::new();
    for worker in [Worker::Unit, Worker::Joins] {
        for point in POINTS {
            let name = format!("{worker:?}/{point}").replace(' ', "-");
            let mut child = work(&database.url, worker, point, &name);
            child.line_containing(&format!("at: {point}"), PATIENCE);
            kill_and_ask_again(&database, child, &name, &mut history).await;
        }
    }
    history.extend(effects(&database).await);
    at_most_once_and_once_after_success(&history).unwrap_or_else(|breach| panic!("{breach}"));

    let mut child = work(&database.url, Worker::EffectApart, "effect made", "apart");
    child.line_containing("at: effect made", PATIENCE);
    kill_and_ask_again(&database, child, "apart", &mut history).await;
    let history: Vec<_> = history.into_iter().filter(|event| matches!(event, Event::Success { .. })).collect();
    let history = [history, effects(&database).await].concat();
    at_most_once_and_once_after_success(&history).expect_err("the double is not caught");
}

/// The points that only the network shows: what was sent, and whether its reply came.
#[cfg(feature = "postgres")]
pub(crate) async fn i18_worker_killed_with_a_message_under_way_leaves_one_effect_at_most(
    database: TestDatabase<sqlx::Postgres>,
) {
    use leastlock_testkit::proxy::{FaultProxy, Then, postgres};

    let database = tables(database).await;
    let mut history = Vec::new();
    let has = |text: &'static str| postgres::once(move |sql: &str| sql.contains(text));
    let [claim, effect, complete] =
        ["INSERT INTO leastlock_idempotency", "INSERT INTO effect", "UPDATE leastlock_idempotency"];
    for (name, is_sent) in [("begun", false), ("claim", true), ("effect", true), ("complete", true)]
        .into_iter()
        .chain([("commit", false), ("commit", true)])
    {
        let proxy = FaultProxy::to_postgres(&database.url).await;
        match name {
            "begun" => proxy.lose_request(has(claim), Then::Hang),
            "claim" => proxy.swallow_reply_to(has(claim), Then::Hang),
            "effect" => proxy.swallow_reply_to(has(effect), Then::Hang),
            "complete" => proxy.swallow_reply_to(has(complete), Then::Hang),
            _ if is_sent => proxy.swallow_reply_to(postgres::once(postgres::is_commit()), Then::Hang),
            _ => proxy.lose_request(postgres::once(postgres::is_commit()), Then::Hang),
        }
        let name = format!("{name}-{is_sent}");
        let child = work(&postgres::through(&proxy, &database.url), Worker::Unit, "none", &name);
        proxy.fired(1, PATIENCE).await;
        kill_and_ask_again(&database, child, &name, &mut history).await;
        let runs = effects(&database).await.iter().filter(|event| **event == effect_of(&name)).count();
        assert_eq!(runs, 1, "{name}");
    }
    history.extend(effects(&database).await);
    at_most_once_and_once_after_success(&history).unwrap_or_else(|breach| panic!("{breach}"));
}

fn work(url: &str, worker: Worker, point: &str, name: &str) -> Child {
    let worker = format!("{worker:?}");
    Child::rerun(WORKER, &[("DATABASE", url), ("WORKER", &worker), ("POINT", point), ("KEY", name)])
}

/// Kills the worker and repeats its request, which must find the key free, or the answer, within the bound.
async fn kill_and_ask_again<DB: TestEngine + IdempotencySql>(
    database: &TestDatabase<DB>,
    mut child: Child,
    name: &str,
    history: &mut Vec<Event>,
) {
    if child.lines().iter().any(|line| line.contains("success")) {
        history.push(Event::success(name, "the first client"));
    }
    child.kill();
    let bound = OnDuplicate::Wait(IDLE_LIMIT + Duration::from_secs(1));
    let keys = Keys::builder().on_duplicate(bound).build().unwrap();
    let call = Call::new(name, "lamp");
    match keys.begin::<DB, String>(&database.pool, &key(&call), &fingerprint("lamp")).await {
        Ok(Begin::First(mut unit)) => {
            insert_effect::<DB>(unit.tx(), &call).await;
            unit.complete("done".to_owned()).await.unwrap();
        }
        Ok(Begin::Replay(_)) => {}
        other => panic!("{name}: the key is not free within its bound: {other:?}"),
    }
    history.push(Event::success(name, "the client who asked again"));
}

fn effect_of(name: &str) -> Event {
    Event::effect(name, "a row")
}

async fn effects<DB: TestEngine>(database: &TestDatabase<DB>) -> Vec<Event> {
    let mut connection = database.pool.acquire().await.unwrap();
    let rows = Statement::new("SELECT item FROM effect").fetch_all::<DB>(&mut connection).await.unwrap();
    rows.iter().map(|row| effect_of(&row.text(0).unwrap())).collect()
}

/// The child, on the engine that its database is of.
#[tokio::test]
async fn worker() {
    if !child_role(WORKER) {
        return;
    }
    let url = std::env::var("DATABASE").unwrap();
    #[cfg(feature = "sqlite")]
    if url.starts_with("sqlite") {
        run::<sqlx::Sqlite>(&url).await;
    }
    #[cfg(feature = "postgres")]
    if url.starts_with("postgres") {
        run::<sqlx::Postgres>(&url).await;
    }
    #[cfg(feature = "mysql")]
    if url.starts_with("mysql") {
        run::<sqlx::MySql>(&url).await;
    }
}

/// Says that the worker is at `point`, and if it is to be killed there, waits for it.
fn at(point: &str) {
    if std::env::var("POINT").unwrap() == point {
        speak(format!("at: {point}"));
        assert_eq!(hear(), None, "nobody sends a line; the parent kills");
    }
}

async fn run<DB: TestEngine + IdempotencySql>(url: &str) {
    let pool = DB::connect(url).await;
    let keys = Keys::builder().idle_limit(IDLE_LIMIT).build().unwrap();
    let name = std::env::var("KEY").unwrap();
    let call = Call::new(&name, "lamp");
    let (key, lamp, answer) = (key(&call), fingerprint("lamp"), "done".to_owned());
    match std::env::var("WORKER").unwrap().as_str() {
        "Unit" => {
            let begun = keys.begin::<DB, String>(&pool, &key, &lamp).await.unwrap();
            let Begin::First(mut unit) = begun else { panic!("the key is free") };
            at("claimed");
            insert_effect::<DB>(unit.tx(), &call).await;
            at("effect made");
            at("answer stored"); // one call stores it and commits, so this is the moment before
            unit.complete(answer).await.unwrap();
        }
        "Joins" => {
            let mut tx = pool.begin_with(DB::BEGIN_WRITE).await.unwrap();
            let begun = keys.begin_in::<DB, String>(&mut tx, &key, &lamp).await.unwrap();
            let BeginIn::First(claim) = begun else { panic!("the key is free") };
            at("claimed");
            insert_effect::<DB>(&mut tx, &call).await;
            at("effect made");
            claim.complete(&mut tx, answer).await.unwrap();
            at("answer stored");
            tx.commit().await.unwrap();
        }
        _ => {
            let mut connection = pool.acquire().await.unwrap();
            insert_effect::<DB>(&mut connection, &call).await;
            at("effect made");
        }
    }
    at("committed");
    speak("success");
    at("replied");
}
